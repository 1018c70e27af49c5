#!/usr/bin/env python3
"""Holds that comments are sentences: only a member's may be a noun clause ("What ...", "Whether ...", "Where x is.").

A comment tells what a function does, returns or expects ("Returns true if ..."), or names a type or a constant ("The
..."). A member of a type may have a clause ("Whether ...").

usage: tools/check_comments.py   prints `file:line: ...` for each; exit status 1 if there is any
"""

import bisect
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ["src/*.h", "src/*.cc", "src/*.cu", "src/*.cuh", "tests/*.h", "tests/*.cc", "bench/*.h", "bench/*.cc"]
SCRIPTS = ["*.py", "*.cmake", "*CMakeLists.txt", "*.js", "*.def", "*.yml", "*requirements.txt", ".ci/*", "test", "quickstart",
           "tools/*", ":!tests"]
# "Where x is." is a clause, "Where x is, y follows." has a subject behind it.
OPENINGS = r"(?:(?:What|Of|Whether|Those|That|How|Which|Who|Whose) .*|(?:Where|When) [^,:;.]*\.?$)"
CLAUSE = re.compile(rf"^[ \t]*// {OPENINGS}", re.MULTILINE)
SCRIPT_CLAUSE = re.compile(rf'^[ \t]*(?:(?:#|//) |"""){OPENINGS}')
SCRIPT_COMMENT = re.compile(r"^[ \t]*(?:#|//)[ \t]*\S")
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


def script_clauses(path):
    """Yields (line number, text) for each comment or docstring of a script that opens with a noun clause."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        before = ""
        for number, line in enumerate(file, 1):
            if SCRIPT_CLAUSE.match(line) and not SCRIPT_COMMENT.match(before):
                yield number, line.strip()
            before = line


def files(patterns):
    return subprocess.check_output(["git", "-C", ROOT, "ls-files", *patterns], text=True).splitlines()


def main():
    found = [f"{path}:{number}: {text}"
             for patterns, clauses_of in ((SOURCES, clauses), (SCRIPTS, script_clauses))
             for path in files(patterns)
             for number, text in clauses_of(path)]
    if not found:
        print("no comment opens with a noun clause")
        return 0
    print("\n".join(found))
    print('[comments] expected sentences ("Returns ...", "The ..."), got noun clauses; rewrite them')
    return 1


if __name__ == "__main__":
    sys.exit(main())
