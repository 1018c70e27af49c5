#!/usr/bin/env python3
"""Compares the TEMPLATE of `spillway export --ollama` with transformers, for every Jinja template that it is given.

A template is rendered by a small interpreter of the part of Go's text/template that such Modelfiles use, with the
values that Ollama gives it (https://docs.ollama.com/template): messages of one role that follow each other are joined,
.System is what all system messages say, SYSTEM where there is none. Ollama puts BOS in front where the tokenizer says
so, hence it is taken off transformers' text. Prints a line a template; ends with status 1 where a text differs.

    pip install transformers jinja2
    python3 tools/compare_ollama_templates.py --spillway build/release/bin/spillway MODEL_FOLDER FILE.jinja ...
MODEL_FOLDER is a small one of tests/golden/export, whose tokenizer files are used with each template.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from transformers.utils.chat_template_utils import render_jinja_template

SYSTEM, ONE, A, TWO, B, THREE = "Be brief.", "Hi there", "Hello!", "2 + 2?", "Four", "Bye \U0001F642"
CHATS = [
    [("user", ONE)],
    [("user", ONE), ("assistant", A), ("user", TWO)],
    [("user", ONE), ("assistant", A), ("user", TWO), ("assistant", B), ("user", THREE)],
    [("system", SYSTEM), ("user", ONE)],
    [("system", SYSTEM), ("user", ONE), ("assistant", A), ("user", TWO)],
    [("system", SYSTEM), ("user", ONE), ("assistant", A), ("user", TWO), ("assistant", B), ("user", THREE)],
]


class GoTemplate:
    """Actions: if, else if, else, end, range $i, $_ := X, $name := X, $name = X, and expressions to print."""

    def __init__(self, text):
        self.parts = re.split(r"\{\{(.*?)\}\}", text, flags=re.S)
        self.at = 0
        self.body, _ = self.block()

    def block(self):
        """Nodes up to an `else` or `end`, and that word."""
        nodes = []
        while self.at < len(self.parts):
            part, is_action = self.parts[self.at], self.at % 2 == 1
            self.at += 1
            if not is_action:
                nodes.append(("text", part))
                continue
            words = part.split()
            if words[0] in ("else", "end"):
                return nodes, words
            nodes.append(self.action(words))
        return nodes, []

    def action(self, words):
        if words[0] == "if":
            return self.branches(words[1:])
        if words[0] == "range":
            body, _ = self.block()
            return "range", words[1].rstrip(","), words[-1], body
        if len(words) > 2 and words[1] in (":=", "="):
            return "set", words[0], " ".join(words[2:])
        return "print", " ".join(words)

    def branches(self, condition):
        body, end = self.block()
        if end == ["end"]:
            return "if", " ".join(condition), body, []
        if end == ["else"]:
            other, _ = self.block()
            return "if", " ".join(condition), body, other
        return "if", " ".join(condition), body, [self.branches(end[2:])]

    def render(self, root):
        self.variables = {"$": root}
        return self.run(self.body, root)

    def run(self, nodes, dot):
        out = ""
        for node in nodes:
            if node[0] == "text":
                out += node[1]
            elif node[0] == "print":
                out += str(self.value(node[1], dot))
            elif node[0] == "set":
                self.variables[node[1]] = self.value(node[2], dot)
            elif node[0] == "if":
                out += self.run(node[2] if self.value(node[1], dot) else node[3], dot)
            else:
                for i, item in enumerate(self.value(node[2], dot)):
                    self.variables[node[1]] = i
                    out += self.run(node[3], item)
        return out

    def value(self, text, dot):
        tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()]+', text)
        return self.call(tokens, dot)

    def call(self, tokens, dot):
        values = []
        while tokens and tokens[0] != ")":
            values.append(self.operand(tokens, dot))
        name, arguments = values[0], values[1:]
        functions = dict(
            eq=lambda a, b: a == b,
            len=len,
            slice=lambda a, i: a[i:],
            **{"not": lambda a: not a, "and": lambda *a: next((x for x in a if not x), a[-1])},
        )
        return functions[name.text](*arguments) if isinstance(name, Word) else name

    def operand(self, tokens, dot):
        token = tokens.pop(0)
        if token == "(":
            value = self.call(tokens, dot)
            tokens.pop(0)
            return value
        if token.startswith('"'):
            return json.loads(token)
        if token.isdigit():
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        if token.startswith("$."):
            return self.variables["$"][token[2:]]
        if token.startswith("$"):
            return self.variables[token]
        return dot[token[1:]] if token.startswith(".") else Word(token)


class Word:
    def __init__(self, text):
        self.text = text


def ollama(template, system, chat):
    messages = [dict(Role=role, Content=content) for role, content in chat]
    said = "\n\n".join(m["Content"] for m in messages if m["Role"] == "system")
    if not said and system:
        messages.insert(0, dict(Role="system", Content=system))
        said = system
    return GoTemplate(template).render(dict(System=said, Messages=messages))


def quoted(modelfile, key):
    found = re.search(rf'^{key} """(.*?)"""$', modelfile, flags=re.S | re.M)
    return found.group(1) if found else None


def compare(path, folder, spillway):
    source = path.read_text(encoding="utf-8")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    made = folder.parent / "made"
    shutil.rmtree(made, ignore_errors=True)
    subprocess.run([spillway, "export", str(folder), "--ollama", str(made)], check=True, capture_output=True)
    modelfile = (made / "Modelfile").read_text(encoding="utf-8")
    template, system = quoted(modelfile, "TEMPLATE"), quoted(modelfile, "SYSTEM")
    if template is None:
        return "none"
    has_system = "no place for a system message" not in modelfile
    bos = settings.get("bos_token", "") if settings.get("add_bos_token") else ""
    tokens = {key: settings[key] for key in ("bos_token", "eos_token", "pad_token", "unk_token") if key in settings}
    same = 0
    for chat in CHATS:
        messages = [dict(role=role, content=content) for role, content in chat]
        if chat[0][0] == "system" and not has_system:
            continue
        (expected,), _ = render_jinja_template([messages], chat_template=source, add_generation_prompt=True, **tokens)
        got = ollama(template, system, chat)
        if bos and expected.startswith(bos):
            expected = expected[len(bos):]
        if got != expected:
            return f"differs: {got!r} where transformers has {expected!r}"
        same += 1
    return f"{same} conversations are the same" + ("" if has_system else ", none with a system message")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("templates", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    differing = 0
    for path in arguments.templates:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "model"
            shutil.copytree(arguments.folder, folder)
            result = compare(path, folder, arguments.spillway)
        differing += result.startswith("differs")
        print(f"{path.stem}: {result}", flush=True)
    sys.exit(differing > 0)
