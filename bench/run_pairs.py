#!/usr/bin/env python3
"""Measures what a mode costs over another, on a machine whose speed wanders: the modes take turns, and ratios are those of a round.

    bench/run_pairs.py MODEL_FOLDER --modes checkpointing "checkpointing, boundaries -> host" --rounds 3

The order turns around every other round. A run's time is that of its median step, the first two left out; `waited` is the time in
which a step's computation waited for a transfer, as the run itself measured it. Prints a table and writes every raw number to --out.
"""

import argparse
import statistics
import sys
import tempfile

from run_modes import MODES, add_job_arguments, seconds, train, write_job_rows
from run_sft import write_results


def print_table(names, results):
    base = [seconds(result) for result in results if result["name"] == names[0]]
    print(f"| mode | step, s, a round | time / {names[0]}, median (min .. max) | waited, ms |")
    print("| --- | --- | ---: | ---: |")
    for name in names:
        runs = [result for result in results if result["name"] == name]
        times = [seconds(run) for run in runs]
        ratios = [time / other for time, other in zip(times, base)]
        waited = 1e3 * statistics.median(run["step"]["compute_stall_seconds"] for run in runs)
        print(f"| {name} | {', '.join(f'{time:.2f}' for time in times)} "
              f"| {statistics.median(ratios):.3f} ({min(ratios):.3f} .. {max(ratios):.3f}) | {waited:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_job_arguments(parser)
    parser.add_argument("--modes", nargs="+", choices=list(MODES), required=True, help="the first is what others are compared with")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    results = []
    with tempfile.TemporaryDirectory() as folder:
        rows = write_job_rows(args, folder)
        for turn in range(args.rounds):
            for name in args.modes if turn % 2 == 0 else reversed(args.modes):
                results.append(train(args, name, MODES[name], {"plan": "fixed"}, rows, folder))
                print(f"round {turn + 1}, {name}: {seconds(results[-1]):.3f} s", file=sys.stderr, flush=True)
    print_table(args.modes, results)
    write_results(args, results)


if __name__ == "__main__":
    main()
