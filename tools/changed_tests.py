#!/usr/bin/env python3
"""Prints the test programs that a change reaches, one a line.

usage: tools/changed_tests.py BUILD_FOLDER [COMMIT]

The change is everything that differs from COMMIT (default: main), uncommitted and new files included. A program is
reached if one of its objects read a changed file when it was last compiled, or is compiled from one. A new source
and a data file reach the programs that have tests in that folder of src/, or in tests/; CMake's files reach all programs.
"""

import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent


def lines_of(*command, folder=REPO):
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()


def changed_files(commit):
    base = lines_of("git", "merge-base", commit, "HEAD")[0]
    return set(lines_of("git", "diff", "--name-only", base) + lines_of("git", "ls-files", "--others", "--exclude-standard"))


def files_of_objects(build):
    """Returns the repository's files that each object read, by the object's name."""
    result, name = {}, None
    for line in lines_of("ninja", "-t", "deps", folder=build):
        if line and not line.startswith(" "):
            name = line.split(":")[0]
            result[name] = set()
        elif line.strip():
            path = pathlib.Path(build, line.strip()).resolve()
            if path.is_relative_to(REPO):
                result[name].add(str(path.relative_to(REPO)))
    return result


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    changed = changed_files(sys.argv[2] if len(sys.argv) > 2 else "main")
    targets = lines_of("ninja", "-t", "targets", "all", folder=build)
    programs = sorted(t.split(":")[0] for t in targets if re.match(r"bin/[a-z_]+_test:", t))
    everything = any(f.startswith("cmake/") or f.endswith("CMakeLists.txt") or f == "CMakePresets.json" for f in changed)
    objects = files_of_objects(build)
    read = set().union(*objects.values())
    reached = {name for name, files in objects.items() if files & changed}
    # A new source is in no object yet, and data are in none: they reach the programs with tests in that folder.
    folders = {"/".join(pathlib.PurePath(f).parts[:-1][:2 if f.startswith("src/") else 1]) + "/"
               for f in changed - read if f.startswith(("src/", "tests/"))}
    for program in programs:
        name = pathlib.PurePath(program).name
        own = {f for o, files in objects.items() if f"/{name}.dir/" in o for f in files if f.endswith("_test.cc")}
        inputs = set(lines_of("ninja", "-t", "inputs", program, folder=build))
        if everything or inputs & reached or any(f.startswith(tuple(folders)) for f in own):
            print(name)


if __name__ == "__main__":
    main()
