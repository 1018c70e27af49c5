#!/usr/bin/env python3
"""Writes docs/operations.md: every operation, from the OpDefs in src/ops/ and the comments of their builder functions.

usage: tools/make_ops_table.py [--check]      --check: exit status 1 where the page is not what would be written
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPS = os.path.join(ROOT, "src", "ops")
PAGE = os.path.join(ROOT, "docs", "operations.md")

HEAD = """# Operations

<!-- Made by tools/make_ops_table.py; CI holds that it is up to date. -->

What graphs are made of. *Gradient*: what its vjp appends, if it is differentiable. *In place*: output <- the input whose place it
may take. *Workspace*: whether its kernel is granted scratch. Every operation has a CPU and a CUDA kernel unless it says
otherwise. [Add an operation](add-an-operation.md) says what each field means.

| operation | what it computes | gradient | in place | workspace |
| --- | --- | --- | --- | --- |
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def definitions(source):
    """Yields (name, fields as text) of each OpDef constant."""
    for match in re.finditer(r"^const OpDef (\w+)\{(.*?)\};$", source, re.MULTILINE | re.DOTALL):
        fields = match.group(2)
        name = re.search(r"\.name = ([^,]+),", fields).group(1)
        if not name.startswith('"'):
            name = re.search(rf"{name} = (\"\w+\")", source).group(1)
        yield name.strip('"'), fields


def function_body(source, name):
    match = re.search(rf"^void {name}\(VjpContext& \w+\) \{{(?:([^\n]+)\}}$|(.*?)^\}})", source, re.MULTILINE | re.DOTALL)
    return match.group(1) or match.group(2) if match else ""


def gradient(source, fields, names, constants):
    match = re.search(r"\.vjp = (\w+)", fields)
    if not match:
        return ""
    body = function_body(source, match.group(1))
    called = [constants[name] for name in re.findall(r"\bk\w+", body) if name in constants]
    called += [name for name in re.findall(r"\b(\w+)\((?:(?:context\.)?builder|b\b)", body) if name in names]
    seen = list(dict.fromkeys(called))
    return ", ".join(f"`{name}`" for name in seen) if seen else "the cotangent"


def purpose(header):
    """Returns the first sentence of a header's opening comment, on one line and without "Returns"."""
    lines = []
    for line in header.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.lstrip("/ "))
    first = " ".join(lines).split("  ")[0].removeprefix("Returns ")
    # The end of a sentence, but for the titles of papers in parentheses.
    ends = [at.start() for at in re.finditer(r"(?<=\w)[.:](?= [A-Z]|$)", first)]
    end = next((at for at in ends if first.count("(", 0, at) == first.count(")", 0, at)), len(first))
    return first[:end].rstrip(".").replace("|", "\\|")


def purpose_of(name, folder, header):
    """Returns what an operation computes: by the comment of its builder function, or of the folder, where that says it."""
    if name.endswith("_grad"):
        return f"the gradient of `{name.removesuffix('_grad')}`"
    lines = header.splitlines()
    at = next((i for i, line in enumerate(lines) if re.search(rf"\b{name}\(Builder& ", line)), None)
    if name == folder or at is None:
        return purpose(header)
    while not lines[at].startswith("//"):
        at -= 1
    first = at
    while lines[first - 1].startswith("//"):
        first -= 1
    return purpose("\n".join(lines[first:at + 1]).split("\n//\n")[-1])


def folders():
    """Returns the folder of each operation, relative to src/ops/, sorted by the operation's name."""
    found = []
    for folder, _, names in os.walk(OPS):
        if f"{os.path.basename(folder)}.cc" in names and folder != OPS:
            found.append(os.path.relpath(folder, OPS))
    return sorted(found, key=os.path.basename)


def enumerators(folder):
    """Returns, by name, the values of the enumerators in an operation's folder: the places of its operands."""
    values = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith((".h", ".cc")):
            continue
        for body in re.findall(r"\benum(?: \w+)? : \w+ \{([^}]*)\}", read(os.path.join(folder, name))):
            value = -1
            for enumerator in re.sub(r"//[^\n]*", "", body).split(","):
                match = re.match(r"\s*(\w+)(?:\s*=\s*(\d+))?\s*$", enumerator)
                if match:
                    value = int(match.group(2)) if match.group(2) else value + 1
                    values[match.group(1)] = value
    return values


def in_place_of(fields, values):
    """Returns (output, input) of each pair of `.in_place`, whose places are numbers or enumerators."""
    places = re.search(r"\.in_place = \{(\{.*?\})\}", fields, re.DOTALL)
    if not places:
        return []
    pairs = re.findall(r"\{([\w:]+), ([\w:]+)\}", places.group(1))
    return [tuple(int(place) if place.isdigit() else values[place.split("::")[-1]] for place in pair) for pair in pairs]


def page():
    paths = {os.path.basename(folder): os.path.join(OPS, folder, os.path.basename(folder)) for folder in folders()}
    sources = {name: read(f"{path}.cc") for name, path in paths.items()}
    constants = {}
    for source in sources.values():
        for match in re.finditer(r"^const OpDef (\w+)\{.*?\.name = ([^,]+),", source, re.MULTILINE | re.DOTALL):
            constants[match.group(1)] = match.group(2).strip('"')
    names = {name for source in sources.values() for name, _ in definitions(source)}
    rows = []
    for folder, source in sources.items():
        values = enumerators(os.path.dirname(paths[folder]))
        for name, fields in sorted(definitions(source), key=lambda one: one[0] != folder):
            of = purpose_of(name, folder, read(f"{paths[folder]}.h"))
            pairs = in_place_of(fields, values)
            updates = ".in_place = update_in_place" in fields
            lacks = "" if ".cuda =" in fields else " (of all ranks)" if ".collective =" in fields else " (CPU alone)"
            rows.append(f"| `{name}`{lacks} | {of} | {gradient(source, fields, names, constants)} | "
                        f"{'all' if updates else ', '.join(f'{out} <- {into}' for out, into in pairs)} | "
                        f"{'yes' if 'workspace_bytes =' in fields else ''} |\n")
    return HEAD + "".join(rows)


def main():
    text = page()
    if "--check" not in sys.argv[1:]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    if not os.path.exists(PAGE) or read(PAGE) != text:
        print("[docs/operations.md] expected the table of the OpDefs, got another; run tools/make_ops_table.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
