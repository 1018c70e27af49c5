#!/usr/bin/env python3
"""Exporting a folder to GGUF beside a copy of the folder, both from a cold cache to the same disk.

    tools/make_random_model.py qwen2.5-1.5b FOLDER
    bench/run_export.py FOLDER --scratch FOLDER [--rounds 3] --out bench/results/export-MACHINE.json

A round copies with `cp -r` and syncs the file system, then exports in each type: the disk's rate moves from minute to
minute, so a round's seconds are beside its own copy. Needs root, to drop the cache. Prints a table of medians and writes
every raw number to --out.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

TYPES = ("bf16", "f16", "q8_0")


def seconds_and_rss(command):
    """Runs it from a cold cache until what it wrote is on the disk."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    os.sync()
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def run_round(args):
    copy, file = os.path.join(args.scratch, "copy"), os.path.join(args.scratch, "model.gguf")
    result = {}
    try:
        result["cp"] = seconds_and_rss(["cp", "-r", args.model, copy])
        shutil.rmtree(copy)
        for name in TYPES:
            result[name] = seconds_and_rss([args.spillway, "export", args.model, "--gguf", file, "--type", name])
            os.remove(file)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--scratch", required=True, help="a folder on the disk that is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spillway", default="build/release/bin/spillway")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rounds = [run_round(args) for _ in range(args.rounds)]
    print("| | seconds | copy's rate | peak RSS, MiB |\n| --- | ---: | ---: | ---: |")
    for name in ("cp", *TYPES):
        seconds = statistics.median(one[name][0] for one in rounds)
        share = statistics.median(one["cp"][0] / one[name][0] for one in rounds)
        print(f"| {name} | {seconds:.1f} | {share:.0%} | {statistics.median(one[name][1] for one in rounds):.0f} |")
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"rounds": rounds}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
