#!/usr/bin/env python3
"""Runs `spillway plan --check-config` over a folder of configs of other trainers and says how many would be taken.

    tools/check_configs.py build/release/bin/spillway axolotl/examples --working-folder axolotl

A config counts when it names a model (base_model or model_name_or_path). It passes when every key and value is fine;
it is counted apart when all that is in its way is to come ("not yet"). Paths inside the configs are relative to the
working folder. With --text-only, configs for models that read more than text, and for models that do not write from
left to right, are left out. With --list, the first problem of each config that does not pass is printed.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

NAMES_MODEL = re.compile(r"^(base_model|model_name_or_path)\s*:", re.MULTILINE)
NOT_TEXT = re.compile(r"^(processor_type|is_multimodal|diffusion\w*|ebft|image_size)\s*:", re.MULTILINE)


def check(program, path, folder):
    command = [program, "plan", path, "--check-config", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in (0, 2):
        sys.exit(f"{path}: exit status {done.returncode}\n{done.stderr}")
    if not done.stdout:  # not even YAML
        return "wrong", [done.stderr.strip()]
    report = json.loads(done.stdout)
    if report["ok"]:
        return "passes", []
    verdicts = {key["verdict"] for key in report["keys"]} - {"supported", "ignored", "off"}
    per_key = sum(key["verdict"] in verdicts for key in report["keys"])
    conflict = len(report["problems"]) > per_key
    if verdicts == {"not yet"} and not conflict:
        return "not yet", report["problems"]
    worst = [key["key"] + ": " + key["note"] for key in report["keys"] if key["verdict"] in verdicts - {"not yet"}]
    return "wrong", worst or report["problems"][-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--working-folder", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--text-only", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()

    counts, seen = collections.Counter(), 0
    for path in sorted([*args.folder.rglob("*.yml"), *args.folder.rglob("*.yaml")]):
        text = path.read_text(encoding="utf-8", errors="replace")
        if not NAMES_MODEL.search(text) or (args.text_only and NOT_TEXT.search(text)):
            continue
        verdict, problems = check(args.program.resolve(), path.resolve(), args.working_folder)
        counts[verdict] += 1
        seen += 1
        if args.list and verdict != "passes":
            print(f"{path}: {verdict}: {problems[0] if problems else ''}")
    for verdict in ("passes", "not yet", "wrong"):
        print(f"{verdict}: {counts[verdict]} of {seen} ({100 * counts[verdict] / max(1, seen):.1f} %)")


if __name__ == "__main__":
    main()
