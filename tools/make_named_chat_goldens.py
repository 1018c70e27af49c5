#!/usr/bin/env python3
"""Writes tests/golden/named_chats.json: what the public templates render that src/text/chat_templates/ follows.

The templates are those that axolotl ships under the same names; only what they render is kept. Conversations that a
template refuses are kept as refused.

    pip install transformers jinja2
    python3 tools/make_named_chat_goldens.py AXOLOTL/src/axolotl/utils/chat_templates/templates
"""
import argparse
import itertools
import json
import pathlib

from make_chat_goldens import CHATS, ROOT, TOOL, apply, lines

SOURCES = ROOT / "src" / "data" / "chat_templates"
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": {"x": "ü"}}}
CONVERSATIONS = {
    **{name: CHATS[name] for name in ("with system", "thinking", "tool call", "parts", "wrong order")},
    "two calls": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                  {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
                  {"role": "tool", "content": "1", "tool_call_id": "abcdefghi"}, {"role": "tool", "content": "2", "tool_call_id": "abcdefghi"},
                  {"role": "assistant", "content": "3"}, {"role": "user", "content": "and?"}],
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
KNOBS = {"is_set": True, "citation_mode": "fast", "response_format": "json_object"}
OPTIONS = [
    {"add_generation_prompt": True, "continue_final_message": False, "tools": None, "documents": None, "variables": TOKENS},
    {"add_generation_prompt": False, "continue_final_message": False, "tools": [TOOL],
     "documents": [{"title": "t", "text": "one", "source": "s"}],
     "variables": {**TOKENS, "enable_thinking": True, "knobs": KNOBS}},
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("templates", type=pathlib.Path, help="folder with the templates of reference")
    folder = parser.parse_args().templates
    cases = []
    for name in sorted([path.stem for path in SOURCES.glob("*.jinja")] + ["aya", "gemma4_unified"]):
        source = (folder / f"{name}.jinja").read_text(encoding="utf-8")
        for (conversation, messages), (number, option) in itertools.product(CONVERSATIONS.items(), enumerate(OPTIONS)):
            result = apply({"messages": messages, **option}, source)
            case = {"template": name, "conversation": conversation, "option": number}
            cases.append({**case, **({"error": "refused"} if "error" in result else result)})
    (ROOT / "tests" / "golden" / "named_chats.json").write_text(
        f'{{"conversations": {json.dumps(CONVERSATIONS)},\n"options": {json.dumps(OPTIONS)},\n"cases": {lines(cases)}}}\n')
    print(len(cases), "conversations")


if __name__ == "__main__":
    main()
