#!/usr/bin/env python3
"""Holds each folder of src/ to its budget of lines: production code, without tests, their helpers and fuzzers.

tools/line_budget.txt has one line per folder: the budget and perhaps, behind it, why it was raised last. A folder that
needs more raises its line in the commit that needs it.

usage: tools/check_lines.py [--list | --lower]   exit status 1 where a folder exceeds its budget
       --list    prints the lines of every folder beside its budget
       --lower   lowers each budget to what the folder has
"""

import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUDGET = os.path.join(ROOT, "tools", "line_budget.txt")
CODE = (".h", ".cc", ".cu", ".cuh", ".def", ".inc", ".py")
NOT_PRODUCTION = re.compile(r"(_test|_fuzz)\.\w+$|/testing/|/testing\.h$")


def count_lines():
    """Returns the lines of production code by folder of src/."""
    counts = collections.Counter()
    for path in subprocess.check_output(["git", "-C", ROOT, "ls-files", "src"], text=True).splitlines():
        if not path.endswith(CODE) or NOT_PRODUCTION.search(path) or path.count("/") < 2:
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            counts[path.split("/")[1]] += sum(1 for _ in file)
    return counts


def read_budget():
    """Returns (folder, lines, reason) of each line of the budget."""
    entries = []
    with open(BUDGET, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                folder, lines, *reason = line.split(maxsplit=2)
                entries.append((folder, int(lines), reason[0].rstrip() if reason else ""))
    return entries


def write_budget(entries):
    with open(BUDGET, encoding="utf-8") as file:
        comments = [line for line in file if line.startswith("#")]
    with open(BUDGET, "w", encoding="utf-8") as file:
        file.writelines(comments)
        file.writelines(f"{folder} {lines} {reason}".rstrip() + "\n" for folder, lines, reason in entries)


def main(arguments):
    counts, entries = count_lines(), read_budget()
    budget = {folder: lines for folder, lines, _ in entries}
    if arguments == ["--list"]:
        for folder, lines in sorted(counts.items()):
            print(f"{folder:12} {lines:6} of {budget.get(folder, 0):6}")
        print(f"{'all':12} {sum(counts.values()):6} of {sum(budget.values()):6}")
        return 0
    if arguments == ["--lower"]:
        write_budget([(folder, min(lines, counts[folder]), reason) for folder, lines, reason in entries if counts[folder]])
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    above = {folder: lines for folder, lines in counts.items() if lines > budget.get(folder, 0)}
    for folder, lines in sorted(above.items()):
        print(f"[src/{folder}] expected at most {budget.get(folder, 0)} lines, got {lines}; "
              "remove some, or raise tools/line_budget.txt with the reason")
    if not above:
        print(f"{sum(counts.values())} lines, and no folder exceeds its budget")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
