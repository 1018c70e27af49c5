#!/usr/bin/env python3
"""One micro-batch after another beside layer by layer: step time, bytes moved and memory, with weights on a held disk.

    bench/run_vertical.py MODEL_FOLDER --rate 40e6 --out bench/results/vertical-MACHINE.json

LoRA with `layer_offloading: disk` and recomputation, in both orders, the runs in turn. Reads from the disk are held to
`--rate` bytes a second (bench/limited_disk.c, which needs cc), so that the link limits a step; the machine is measured
under the same rate, in a cache folder of its own. A step's time is the median, the first left out. The losses of all
runs must be equal. Prints a table and writes every raw number to --out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import run_modes
from run_sft import HERE, write_results, write_rows

ORDERS = {"horizontal": {}, "vertical": {"micro_batch_order": "vertical"}}
KEYS = {"layer_offloading": "disk", "gradient_checkpointing": True}


def hold_disk(rate, folder):
    """Makes programs that this one starts read from the disk at `rate`, and measure the machine anew."""
    library = os.path.join(folder, "limited_disk.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", os.path.join(HERE, "limited_disk.c"), "-o", library, "-ldl"], check=True)
    os.environ.update(LD_PRELOAD=library, BENCH_DISK_RATE=str(rate), XDG_CACHE_HOME=os.path.join(folder, "cache"))


def print_table(results):
    print("| accumulation | order | step, s | predicted / it | from the disk a step, MB | device MiB | speed-up |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for accumulation in sorted({r["accumulation"] for r in results}):
        of_it = [r for r in results if r["accumulation"] == accumulation]
        plain = statistics.median(seconds(r) for r in of_it if r["order"] == "horizontal")
        for order in ORDERS:
            runs = sorted((r for r in of_it if r["order"] == order), key=seconds)
            run = runs[len(runs) // 2]
            print(f"| {accumulation} | {order} | {seconds(run):.2f} | {run['step']['predicted_seconds'] / seconds(run):.2f} "
                  f"| {run['lanes']['disk_read']['bytes'] / len(run['step_seconds']) / 1e6:.0f} "
                  f"| {run_modes.mib(run['tiers']['device']['measured_peak_bytes'])} | {plain / seconds(run):.2f} |")


def seconds(result):
    return statistics.median(result["step_seconds"][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rate", type=float, default=40e6, help="bytes a second that the disk gives")
    parser.add_argument("--accumulation", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--rows", type=int, default=1, help="rows of a micro-batch")
    parser.add_argument("--tokens", type=int, default=128, help="tokens per row")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", help="file for the raw numbers")
    run_modes.add_machine_arguments(parser)
    args = parser.parse_args()
    args.job = "lora"
    results = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(args.model, "tokenizer.json"), encoding="utf-8") as file:
            vocabulary = len(json.load(file)["model"]["vocab"])
        rows = os.path.join(folder, "rows.jsonl")
        write_rows(rows, args.rows * args.steps * max(args.accumulation), vocabulary, args.tokens)
        hold_disk(args.rate, folder)
        for accumulation in args.accumulation:
            for _ in range(args.repeats):
                for order, keys in ORDERS.items():
                    keys = KEYS | keys | {"gradient_accumulation_steps": accumulation}
                    result = run_modes.train(args, f"{order}, {accumulation}", keys, {}, rows, folder)
                    results.append(result | {"order": order, "accumulation": accumulation})
            losses = [r["losses"] for r in results if r["accumulation"] == accumulation]
            if any(one != losses[0] for one in losses):
                sys.exit(f"[run_vertical] expected the same losses in both orders, got {losses}")
    print_table(results)
    write_results(args, results)


if __name__ == "__main__":
    main()
