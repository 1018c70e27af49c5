#!/usr/bin/env python3
"""Holds that comments are sentences: only a member's may open with a noun clause ("What ...", "Whether ...").

A comment tells what a function does, returns or expects ("Returns true if ..."), or names a type or a constant ("The
..."). A member of a type may have a clause ("Whether ..."). tools/comment_budget.txt has the number of other comments
of that form by folder. A number may only fall: a folder with more fails, one with fewer asks to lower it.

usage: tools/check_comments.py          prints `file:line: ...` for folders above their number; exit status 1 if any is
       tools/check_comments.py --list   prints all comments of that form, in all folders
       tools/check_comments.py --lower  writes the numbers that are lower now; raises none
"""

import bisect
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUDGET = "tools/comment_budget.txt"
SOURCES = ["src/*.h", "src/*.cc", "src/*.cu", "src/*.cuh", "tests/*.h", "tests/*.cc", "bench/*.h", "bench/*.cc"]
CLAUSE = re.compile(r"^[ \t]*// (?:What|Of|Whether|Those|That|How|Which|Who|Whose) .*", re.MULTILINE)
CONTINUED = re.compile(r"//[ \t]*\S")  # in the line before, whose comment goes on; an empty comment ends a paragraph
# The comments and literals of a source, whose braces and semicolons do not count.
SKIPPED = re.compile(r'//[^\n]*|R"([^()\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
TYPE = re.compile(r"(?:template\s*<.*>\s*|private:|public:|protected:|\s)*(?:struct|class|union|enum)\b", re.DOTALL)
ATTRIBUTE = re.compile(r"alignas\([^()]*\)|\[\[.*?\]\]")
NOT_DATA = re.compile(r"(?:using|static|friend|template|struct|class|enum|union|typedef|constexpr|explicit|virtual)\b")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def scopes(code):
    """Returns the positions at which scopes or statements of a source without comments begin or end, and for each
    whether the innermost open scope is that of a type."""
    positions, are_types, opened, head = [0], [False], [False], 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match.group(0) == "{":
            text = ATTRIBUTE.sub("", code[head:at])
            opened.append(bool(TYPE.match(text)) and "(" not in text)
        elif match.group(0) == "}" and len(opened) > 1:
            opened.pop()
        positions.append(at)
        are_types.append(opened[-1])
        head = at + 1
    return positions, are_types


def is_data(declaration):
    """Returns true if `declaration`, the text after a comment in a type, begins with a data member or an enumerator."""
    text = declaration.lstrip()
    while True:  # removes template arguments, which may have parentheses
        shorter = re.sub(r"<[^<>]*>", "", text[:2000])
        if shorter == text:
            break
        text = shorter
    text = re.split(r"[;={}]", ATTRIBUTE.sub("", text), maxsplit=1)[0]
    return not NOT_DATA.match(text.strip()) and ("(" not in text or re.search(r"\(\s*\*", text) is not None)


def clauses(path):
    """Yields (line number, text) for each comment that opens with a noun clause and does not belong to a member."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        source = file.read()
    found = list(CLAUSE.finditer(source))
    if not found:
        return
    code = SKIPPED.sub(blank, source)
    positions, are_types = scopes(code)
    for match in found:
        before = source.rfind("\n", 0, max(0, match.start() - 1)) + 1
        if match.start() > 0 and CONTINUED.search(source[before:match.start()]):
            continue
        is_in_type = are_types[bisect.bisect_right(positions, match.start()) - 1]
        if not (is_in_type and is_data(code[match.end():])):
            yield source.count("\n", 0, match.start()) + 1, match.group(0).strip()


def folder_of(path):
    return "/".join(path.split("/")[:2]) if path.startswith("src/") else path.split("/")[0]


def read_budget():
    with open(os.path.join(ROOT, BUDGET), encoding="utf-8") as file:
        lines = (line.split() for line in file if line.strip() and not line.startswith("#"))
        return {folder: int(count) for folder, count in lines}


def lower(budget, counts):
    """Writes the budget with the numbers that have become lower."""
    with open(os.path.join(ROOT, BUDGET), encoding="utf-8") as file:
        comments = [line for line in file if line.startswith("#")]
    with open(os.path.join(ROOT, BUDGET), "w", encoding="utf-8") as file:
        file.writelines(comments)
        for folder, count in sorted(budget.items()):
            if min(count, counts[folder]) > 0:
                file.write(f"{folder} {min(count, counts[folder])}\n")


def main(arguments):
    found = collections.defaultdict(list)
    for path in subprocess.check_output(["git", "-C", ROOT, "ls-files", *SOURCES], text=True).splitlines():
        found[folder_of(path)] += [f"{path}:{number}: {text}" for number, text in clauses(path)]
    counts = collections.Counter({folder: len(lines) for folder, lines in found.items()})
    if arguments == ["--list"]:
        print("\n".join(line for folder in sorted(found) for line in found[folder]))
        return 0
    budget = read_budget()
    if arguments == ["--lower"]:
        lower(budget, counts)
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    above = [folder for folder in sorted(counts) if counts[folder] > budget.get(folder, 0)]
    for folder in above:
        print("\n".join(found[folder]))
        print(f"[{folder}] expected at most {budget.get(folder, 0)} comments that open with a noun clause, got "
              f"{counts[folder]}; write sentences (\"Returns ...\", \"The ...\")")
    for folder, count in sorted(budget.items()):
        if counts[folder] < count:
            print(f"[{folder}] has {counts[folder]} such comments left of {count}; run tools/check_comments.py --lower")
    if not above:
        print(f"no folder has more noun clauses than {BUDGET} allows")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
