#!/usr/bin/env python3
"""Holds that what a source keeps to itself has a name that no other source of its program or library has.

Sources of a folder are compiled together (SPILLWAY_UNITY), and then their unnamed namespaces are one: two types or constants
of a name are an error, which depends on the sources that happen to be compiled together; two functions are worse, as
a call may mean the other one. What is compiled alone (src/CMakeLists.txt, ALONE) keeps its names to itself. Vector kernels are compiled
together whatever else is (spillway_vector_unity): for them it holds in the namespaces of instruction sets.

usage: tools/check_local_names.py        prints `file:line: ...` for each breach; exit status 1 if there is one
"""

import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)[^(]*$")
ALIAS = re.compile(r"using (\w+) = (.*);")
CONSTANT = re.compile(r"(?:static |inline )*(?:constexpr|const) [^(=]*?\b(k[A-Z]\w*)")
ANOTHER = re.compile(r", (k[A-Z]\w*)(?:\[\w*\])? = ")  # that the same line declares
FUNCTION = re.compile(r"[\w:<>,&*\s\[\]]+?[\s&*>](\w+)\(")
OPERATION = re.compile(r"namespace (\w+_op) {")
SKIPPED = re.compile(r"[\s/#}]|TEST_CASE|using namespace|template|namespace")


def alone():
    """Returns, by folder, what the path of a source has that is compiled alone."""
    with open(os.path.join(ROOT, "src/CMakeLists.txt"), encoding="utf-8") as file:
        calls = re.findall(r"^spillway_folder\((.+?)\)", file.read(), re.MULTILINE | re.DOTALL)
    found = (re.match(r"(\w+) .*ALONE (\S+)", call, re.DOTALL) for call in calls)
    return {match.group(1): re.compile(match.group(2)) for match in found if match}


def local_names(path, vectors):
    """Yields (line number, name, whether it is an alias of what) of what stands in unnamed namespaces of a source and, with
    `vectors`, in those of instruction sets. In the namespace of an operation, the name begins with that: rope_op::infer."""
    named = ["spillway::ops::HWY_NAMESPACE"] if vectors else []
    openings = ("namespace {", *(f"namespace {name} {{" for name in named))
    closings = ("}  // namespace", *(f"}}  // namespace {name}" for name in named))
    is_local, operation = False, ""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        opened = OPERATION.match(line)
        if opened:
            operation = f"{opened.group(1)}::"
        elif line.startswith("}  // namespace") and line.endswith("_op"):
            operation = ""
        if line.startswith(openings):
            is_local = True
        elif line in closings:
            is_local = False
        elif is_local and line and not SKIPPED.match(line):
            alias, constant = ALIAS.match(line), CONSTANT.match(line)
            match = alias or TYPE.match(line) or constant or FUNCTION.match(line)
            if match:
                yield number, operation + match.group(1), alias.group(2) if alias else ""
            for name in ANOTHER.findall(line) if constant else ():
                yield number, operation + name, ""


def is_vector_kernel(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return "#include <hwy/foreach_target.h>" in file.read()


def groups():
    """Returns the sources of each library and each test program that are compiled together, by (folder, is test, is for tests), and
    the vector kernels as (folder, "vectors")."""
    apart, result = alone(), collections.defaultdict(list)
    files = subprocess.check_output(["git", "-C", ROOT, "ls-files", "src/*.cc", "tests/*.cc"], text=True).splitlines()
    for path in files:
        folder = path.split("/")[1] if path.startswith("src/") else "tests"
        is_test = path.endswith("_test.cc") or folder == "tests"
        if folder == "ops" and is_vector_kernel(path):
            result[folder, "vectors"].append(path)
        if path.endswith(("_fuzz.cc", "/main.cc")) or (not is_test and folder in apart and apart[folder].search(path)):
            continue
        result[folder, is_test, "/testing/" in path].append(path)
    return result


def main():
    breaches = []
    for group, paths in groups().items():
        first = {}
        for path in paths:
            for number, name, meaning in local_names(path, vectors="vectors" in group):
                other, other_meaning = first.setdefault(name, (f"{path}:{number}", meaning))
                if other.split(":")[0] != path and not (meaning and meaning == other_meaning):
                    breaches.append(f"{path}:{number}: expected a name of its own, got {name}, which {other} has, too")
    print("\n".join(breaches) if breaches else "what sources keep to themselves has names of its own")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
