#!/usr/bin/env python3
"""Holds three rules of src/: what folders depend on, headers that stand alone, and files that can be read in one go.

- A folder includes only itself and what it DEPENDS on in src/CMakeLists.txt, directly or through others; its tests
  include what those of its dependencies may, and what it names as TESTS_DEPEND.
- Every header starts with `#pragma once` after its comment and compiles by itself. Those that changed last are compiled
  here: precompiled headers and sources that are compiled together hide from the build what one lacks.
- A file of more than 450 lines is named; more than 800 is an error.

usage: tools/check_includes.py [--all]     prints `file:line: ...` for each breach; exit status 1 if there is one
                                           --all: compiles every header, which takes minutes
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SRC = os.path.join(ROOT, "src")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
HEADERS = (".h", ".cuh")  # CUDA's compile as C++, too: backend/testing/simt.h
CODE = (*HEADERS, ".cc", ".cu")
PARTS = (".def", ".inc")  # of a header or a source that includes them, often several times
LONG_LINES, MOST_LINES = 450, 800


def folder_graph():
    """Returns, by folder of src/CMakeLists.txt, the folders that its code and that its tests may include."""
    with open(os.path.join(SRC, "CMakeLists.txt"), encoding="utf-8") as file:
        calls = re.findall(r"^spillway_folder\((.+?)\)", file.read(), re.MULTILINE | re.DOTALL)
    code, tests = {}, {}
    for call in calls:
        words, lists = call.split(), {"DEPENDS": [], "TESTS_DEPEND": []}
        current = None
        for word in words[1:]:
            current = lists.get(word, []) if word.isupper() else current
            if current is not None and not word.isupper():
                current.append(word)
        code[words[0]] = {words[0]}.union(*(code[other] for other in lists["DEPENDS"]))
        tests[words[0]] = {words[0]}.union(*(tests[other] for other in lists["DEPENDS"] + lists["TESTS_DEPEND"]))
    return code, tests


def sources():
    """Returns every C++ and CUDA file below src/, relative to it, sorted."""
    found = []
    for folder, _, names in os.walk(SRC):
        found += [os.path.relpath(os.path.join(folder, name), SRC) for name in names if name.endswith(CODE + PARTS)]
    return sorted(found)


def read_lines(path):
    with open(os.path.join(SRC, path), encoding="utf-8") as file:
        return file.read().splitlines()


def project_includes(lines):
    """Returns (line number, path) of each #include "path"."""
    matches = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, 1))
    return [(number, match.group(1)) for number, match in matches if match]


def check_dependencies(path, includes, graph, files):
    own, is_test = path.split("/")[0], path.endswith(("_test.cc", "_fuzz.cc")) or "/testing/" in path
    allowed = graph[is_test].get(own)
    for number, included in includes:
        if included.startswith("tests/"):
            if not path.endswith(("_test.cc", "_fuzz.cc")):
                yield f"src/{path}:{number}: expected code that does without tests/, got {included}; move it to src/"
        elif included not in files:
            yield f"src/{path}:{number}: expected a file below src/, got {included}; write its path from src/"
        elif allowed and included.split("/")[0] not in allowed:
            yield (f"src/{path}:{number}: expected {own}/ to include only what it DEPENDS on, got {included}; "
                   "see src/CMakeLists.txt")


def check_length(path, lines):
    if len(lines) > MOST_LINES:
        yield f"src/{path}:1: expected at most {MOST_LINES} lines, got {len(lines)}; split it by subject"


def check_guard(path, lines):
    code = next((line for line in lines if line and not line.startswith("//")), "")
    if path.endswith("-inl.h"):  # Highway's kind of header, included once for each instruction set
        return
    if path.endswith(HEADERS) and code != "#pragma once":
        yield f"src/{path}:1: expected `#pragma once` after the opening comment, got '{code}'; put it there"


def recent_headers(count):
    """Returns the `count` headers that changed last, those not committed yet before all others."""
    git = ["git", "-C", SRC, "-c", "core.quotePath=false"]
    commands = [[*git, "diff", "HEAD", "--name-only", "--relative"], [*git, "log", "--format=", "--name-only", "--relative", "--", "."]]
    paths = [path for command in commands for path in subprocess.check_output(command, text=True).splitlines()]
    headers = [path for path in paths if path.endswith(HEADERS) and os.path.exists(os.path.join(SRC, path))]
    return list(dict.fromkeys(headers))[:count]


def check_stands_alone(header):
    """Compiles `header` by itself and returns what the compiler says, or nothing."""
    command = ["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", SRC, "-include", header, "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    error = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr)
    return [f"src/{header}:1: expected a header that compiles by itself, got: {error}"]


def main():
    graph, files = folder_graph(), sources()
    lines_of = {path: read_lines(path) for path in files}
    includes_of = {path: project_includes(lines) for path, lines in lines_of.items()}

    breaches = []
    for path, lines in lines_of.items():
        breaches += check_dependencies(path, includes_of[path], graph, lines_of)
        breaches += check_guard(path, lines)
        breaches += check_length(path, lines)
        if LONG_LINES < len(lines) <= MOST_LINES:
            print(f"src/{path}:1: note: {len(lines)} lines; a file has one subject and is read in one go")

    headers = [path for path in files if path.endswith(HEADERS)] if "--all" in sys.argv[1:] else recent_headers(16)
    headers = [path for path in headers if path.split("/")[0] in graph[0]]  # not of modules, whose libraries may be absent
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(check_stands_alone, headers):
            breaches += found

    print("\n".join(breaches) if breaches else f"{len(files)} files include only what their folders depend on")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
