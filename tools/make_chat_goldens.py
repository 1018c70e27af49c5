#!/usr/bin/env python3
"""Writes tests/golden/jinja.json and tests/golden/chats.json: what jinja2 in transformers' environment renders.

Needs transformers and jinja2. jinja.json holds small templates, one feature each; chats.json holds whole conversations
through templates of the kinds that models ship (written here, but for those that --fixtures adds from the
tokenizer_config.json files of a folder; the ones committed come from Apache-2.0 tokenizers).
"""
import argparse
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as utils
from jinja_golden_cases import EXPRESSIONS, STATEMENTS, V

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOW = datetime.datetime(2025, 3, 9, 17, 4, 5)


class FrozenTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


utils.datetime = FrozenTime


def render(source, variables):
    try:
        template = utils._compile_jinja_template(source)
        return {"text": template.render(**json.loads(json.dumps(variables)))}
    except RecursionError:
        raise
    except Exception as error:  # every refusal is golden, whatever its class
        return {"error": f"{type(error).__name__}: {error}"}


def small_cases():
    cases = []
    for source in [f"{{{{ {e} }}}}" for e in EXPRESSIONS] + STATEMENTS:
        # Only the variables that the template names, to keep the file small.
        variables = {k: v for k, v in V.items() if k in source}
        case = {"source": source, "variables": variables, **render(source, variables)}
        assert "0x7f" not in case.get("text", ""), f"{source}: prints the address of a Python object"
        cases.append(case)
    return cases


CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = "" %}
    {%- set rest = messages %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system }}
{{- "<|eot_id|>" }}
{%- for message in rest %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One tool call at a time!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MARKED = """{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|a|>' }}
{%- generation %}
{{- message.content + '<|end|>' }}
{%- endgeneration %}
{{- '\\n' }}
{%- else %}
{{- '<|' + message.role[0] + '|>' + message.content + '<|end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|a|>' }}{% endif %}"""

THINKING = """{%- for m in messages -%}
{{ m.role }}:{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{% if m.thinking is defined %}[{{ m.thinking }}]{% endif %}
{%- if m.content is string %}{{ m.content | trim }}{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}<{{ part.type }}>{% endif %}{% endfor %}{% endif %}
{%- if m.tool_calls is defined %}{{ m.tool_calls | tojson }}{% endif %};
{%- endfor -%}"""

DOCUMENTS = """{%- if documents %}{% for d in documents %}<doc {{ loop.index }}>{{ d.title | title }}
{{ d.text | indent(2) }}</doc>
{% endfor %}{% endif %}{{ messages[-1].content }}{% if enable_thinking is defined and enable_thinking is false %}/no_think{% endif %}"""

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Wetter für <b>\"x\"</b>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "default": None}, "days": {"type": "integer", "minimum": 1.0}}, "required": ["city"]}}}

CHATS = {
    "one turn": [{"role": "user", "content": "Hello"}],
    "with system": [{"role": "system", "content": "  Be brief. "}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello there"}, {"role": "user", "content": "Bye é🙂"}],
    "two answers": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "ü"}, {"role": "assistant", "content": "d 日"}],
    "thinking": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n4"}, {"role": "user", "content": "sure?"},
                 {"role": "assistant", "reasoning_content": "let me see", "content": "yes"}],
    "reasoning by another name": [{"role": "user", "content": "q"}, {"role": "assistant", "thinking": "t", "content": "a"}, {"role": "user", "content": "q"}, {"role": "assistant", "reasoning": "r", "content": "a"}],
    "null keys": [{"role": "user", "content": "q", "name": None}, {"role": "assistant", "content": "a", "tool_calls": None, "reasoning_content": None}],
    "tool call": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2.0}}}]},
                  {"role": "tool", "content": "{\"t\": 21.5}"}, {"role": "assistant", "content": "21.5 degrees"}],
    "two tools": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "c", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}, {"name": "b", "arguments": {"x": [1, None, True]}}]},
                  {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "user", "content": "and?"}],
    "parts": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is it"}]}, {"role": "assistant", "content": [{"type": "text", "text": "a cat"}]}],
    "wrong order": [{"role": "assistant", "content": "I first"}, {"role": "assistant", "content": "again"}],
    "empty": [],
}


def chat_cases(templates):
    cases = []
    for (template_name, template), (chat_name, messages) in ((t, c) for t in templates.items() for c in CHATS.items()):
        options = [dict(add_generation_prompt=True), dict(), dict(tools=[TOOL], variables={"enable_thinking": False}, add_generation_prompt=True),
                   dict(documents=[{"title": "a title", "text": "one\ntwo"}], variables={"enable_thinking": True, "date_string": "1 Jan 2025"}),
                   dict(continue_final_message=True)]
        seen = set()
        for option in options:
            case = {"name": f"{template_name}, {chat_name}", "template": template_name, "messages": messages, "tools": option.get("tools"),
                    "documents": option.get("documents"), "add_generation_prompt": option.get("add_generation_prompt", False),
                    "continue_final_message": option.get("continue_final_message", False),
                    "variables": {"bos_token": "<s>", "eos_token": "</s>", **option.get("variables", {})}}
            case.update(apply(case, template))
            outcome = json.dumps([case.get("text"), case.get("error")])
            if outcome not in seen:
                seen.add(outcome)
                cases.append(case)
    return cases


def apply(case, template):
    try:
        # The same as tokenization_utils_base.apply_chat_template does around render_jinja_template.
        if not case["messages"]:
            raise ValueError("empty conversation")
        messages = [{k: v for k, v in m.items() if v is not None} for m in case["messages"]]
        arguments = dict(conversations=[messages], tools=case["tools"], documents=case["documents"], chat_template=template,
                         add_generation_prompt=case["add_generation_prompt"], **case["variables"])
        if case["continue_final_message"]:
            text, spans = utils.render_jinja_template(continue_final_message=True, **arguments)[0][0], []
            spans = None
        else:
            texts, indices = utils.render_jinja_template(return_assistant_tokens_mask=True, **arguments)
            text, spans = texts[0], indices[0]
        plain = text if spans is None else utils.render_jinja_template(**arguments)[0][0]
        assert plain == text
        if spans is None:
            spans = []
        # Characters to bytes.
        in_bytes = [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]
        return {"text": text, "generation_spans": in_bytes}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def lines(cases):
    return "[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--fixtures", type=pathlib.Path, help="folder of tokenizer folders whose templates are added")
    options = arguments.parse_args()
    templates = {"chatml": CHATML, "llama3": LLAMA3, "marked": MARKED, "thinking": THINKING, "documents": DOCUMENTS}
    for folder in sorted(options.fixtures.iterdir()) if options.fixtures else []:
        config = folder / "tokenizer_config.json"
        template = json.loads(config.read_text()).get("chat_template") if config.exists() else None
        if template:
            templates[folder.name] = template
    golden = ROOT / "tests" / "golden"
    golden.mkdir(parents=True, exist_ok=True)
    small, chats = small_cases(), chat_cases(templates)
    (golden / "jinja.json").write_text(lines(small) + "\n")
    (golden / "chats.json").write_text(f'{{"templates": {json.dumps(templates, ensure_ascii=False)},\n"cases": {lines(chats)}}}\n')
    print(len(small), "small cases,", len(chats), "conversations")


if __name__ == "__main__":
    main()
