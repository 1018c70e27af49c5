#!/usr/bin/env python3
"""Compares `spillway tokenize --messages` with transformers on every chat template that it finds in files and folders.

Templates are *.jinja and *.j2 files, "chat_template" members of JSON files, and string constants of Python files that
loop over messages. Each renders many conversations, with and without tools, documents, thinking. Both must agree on the
text, or both must refuse. Exits 1 where anything differs.

    pip install transformers jinja2
    python3 tools/compare_chat_templates.py --spillway build/release/bin/spillway FOLDER ...
"""
import argparse
import ast
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import transformers.utils.chat_template_utils as utils
from make_chat_goldens import CHATS, TOOL, apply

utils.datetime = datetime.datetime  # the goldens freeze it

TOKENIZER = {"model": {"type": "WordLevel", "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2}, "unk_token": "<unk>"}}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
OPTIONS = [
    {"add_generation_prompt": True},
    {"tools": [TOOL], "add_generation_prompt": True, "variables": {"enable_thinking": False, "thinking": False}},
    {"documents": [{"title": "a title", "text": "one\ntwo"}],
     "variables": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high", "date_string": "1 Jan 2025"}},
    {"continue_final_message": True},
]


def members(value):
    """The texts of every "chat_template" in a JSON document."""
    if isinstance(value, list):
        for item in value:
            yield from members(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "chat_template":
                named = item if isinstance(item, list) else [{"template": item}]
                yield from (n["template"] for n in named if isinstance(n, dict) and isinstance(n.get("template"), str))
            else:
                yield from members(item)


def constants(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "{%" in node.value and " in messages" in node.value:
                yield node.value


def templates_of(path):
    if path.suffix in (".jinja", ".jinja2", ".j2"):
        return [path.read_text(encoding="utf-8")]
    try:
        if path.suffix == ".json":
            return list(members(json.loads(path.read_text(encoding="utf-8"))))
        if path.suffix == ".py":
            return list(constants(path.read_text(encoding="utf-8")))
    except (ValueError, SyntaxError, RecursionError):
        pass
    return []


def find_templates(roots):
    found = {}
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file():
                for source in templates_of(path):
                    found.setdefault(source, f"{root.name}/{path.relative_to(root)}")
    return found


def conversations():
    for chat, messages in CHATS.items():
        for number, option in enumerate(OPTIONS):
            case = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": False,
                    "continue_final_message": False, **option}
            case["variables"] = {**TOKENS, **option.get("variables", {})}
            yield f"{chat}, option {number}", case


def line_of(case):
    line = {key: value for key, value in case.items() if key != "variables"}
    return json.dumps({**line, "chat_template_kwargs": case["variables"]}) + "\n"


def differences(spillway, folder, source, cases):
    """Returns what differs, a line for each conversation, and how many rendered."""
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    run = subprocess.run([spillway, "tokenize", folder, "--messages", folder / "lines.jsonl", "--json-lines"],
                         capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
    if not answers:
        answers = [{"error": run.stderr.strip()}] * len(cases)
    found, rendered = [], 0
    for (name, case), got in zip(cases, answers, strict=True):
        wanted = apply(case, source)
        rendered += "text" in wanted
        if wanted.get("text") != got.get("text"):
            found.append(f"{name}:\n      expected {wanted.get('text', wanted.get('error'))!r}\n"
                         f"      got      {got.get('text', got.get('error'))!r}")
    return found, rendered


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("roots", nargs="+", type=pathlib.Path, help="files and folders with templates")
    parser.add_argument("--spillway", default="build/release/bin/spillway", help="the program")
    parser.add_argument("--show", type=int, default=2, help="differences to show for each template")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    templates, cases = find_templates(options.roots), list(conversations())
    bad = total = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        (folder / "lines.jsonl").write_text("".join(line_of(case) for _, case in cases))
        for source, name in templates.items():
            found, rendered = differences(options.spillway, folder, source, cases)
            total += rendered
            if found:
                bad += 1
                print(f"{name}: {len(found)} of {len(cases)} conversations differ", flush=True)
                for text in found[: options.show]:
                    print("    " + text, flush=True)
    print(f"{len(templates)} templates, {total} rendered conversations, {bad} templates with differences")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
