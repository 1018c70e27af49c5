#!/usr/bin/env python3
"""One micro-batch after another beside layer by layer: step time, bytes moved and memory, with weights on a held disk.

    bench/run_vertical.py MODEL_FOLDER --rate 40e6 --out bench/results/vertical-MACHINE.json

Each row trains in both orders, and with --auto in the one that the plan chooses, the runs in turn:

- `lora-8`, `lora-4`: LoRA with layers on the disk and recomputation, 8 or 4 micro-batches a step; with --peer-python
  beside transformers + PEFT over layers that accelerate keeps on the disk (bench/peers/accelerate_sft.py), the same
  accumulation
- `lora-4-fast`: the same from a disk that is --fast times as fast, so that arithmetic takes longer than the link
- `lora-4-resident`: everything on the device
- `full-4`: full fine-tuning with weights, gradients and optimizer state on the disk
- `evaluation-64`: an evaluation of 64 micro-batches with layers on the disk: half of what a run of one step takes longer
  for two of them than without

Reads from the disk are held to `--rate` bytes a second (bench/limited_disk.c, which needs cc), so that the link limits a
step; the machine is measured under the same rate, in a cache folder of its own. A step's time is the median, the first
left out. The losses of all runs of Spillway must be equal in a row. Prints a table and writes every raw number to --out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import run_modes
from run_sft import HERE, run, write_results, write_rows

ORDERS = {order: {"micro_batch_order": order} for order in ("horizontal", "vertical", "auto")}
ON_DISK = {"layer_offloading": "disk", "gradient_checkpointing": True}
ALL_ON_DISK = {"parameter_offload": "disk", "gradient_offload": "disk", "optimizer_offload": "disk",
               "gradient_checkpointing": True}
ROWS = {
    "lora-8": {"job": "lora", "accumulation": 8, "keys": ON_DISK, "has_peer": True},
    "lora-4": {"job": "lora", "accumulation": 4, "keys": ON_DISK, "has_peer": True},
    "lora-4-fast": {"job": "lora", "accumulation": 4, "keys": ON_DISK, "is_fast": True},
    "lora-4-resident": {"job": "lora", "accumulation": 4, "keys": {"gradient_checkpointing": True}},
    "full-4": {"job": "full", "accumulation": 4, "keys": ALL_ON_DISK},
}
EVALUATION, EVALUATED = "evaluation-64", 64


def hold_disk(rate, folder):
    """Makes programs that this one starts read from the disk at `rate`, and measure the machine anew for each rate."""
    library = os.path.join(folder, "limited_disk.so")
    if not os.path.exists(library):
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", os.path.join(HERE, "limited_disk.c"), "-o", library, "-ldl"], check=True)
    os.environ.update(LD_PRELOAD=library, BENCH_DISK_RATE=str(rate), XDG_CACHE_HOME=os.path.join(folder, f"cache-{rate:.0f}"))


def train_peer(args, accumulation, rows):
    command = [args.peer_python, os.path.join(HERE, "peers", "accelerate_sft.py"), args.model, rows, "--steps", str(args.steps),
               "--accumulation", str(accumulation), "--rows-per-micro-batch", str(args.rows), "--threads", str(args.threads)]
    output, rss = run(command, args.threads)
    return json.loads(output.splitlines()[-1]) | {"name": "transformers + PEFT, accelerate", "peak_rss_bytes": rss, "order": "peer"}


def runs_of(args, name, rows, folder):
    """Trains a row in each order and, where there is one, the peer."""
    row = ROWS[name]
    hold_disk(args.rate * (args.fast if row.get("is_fast") else 1), folder)
    args.job = row["job"]
    results = []
    for _ in range(args.repeats):
        for order in ORDERS:
            if order == "auto" and not args.auto:
                continue
            keys = row["keys"] | ORDERS[order] | {"gradient_accumulation_steps": row["accumulation"]}
            results.append(run_modes.train(args, f"{name}, {order}", keys, {}, rows, folder) | {"order": order})
        if row.get("has_peer") and args.peer_python:
            results.append(train_peer(args, row["accumulation"], rows))
    losses = [result["losses"] for result in results if result["order"] != "peer"]
    if any(one != losses[0] for one in losses):
        sys.exit(f"[run_vertical] expected the same losses in all orders of {name}, got {losses}")
    return [result | {"row": name} for result in results]


def runs_of_evaluation(args, vocabulary, rows, folder):
    """Trains one step in each order, with two evaluations and without. The first run measures the machine and counts for nothing."""
    hold_disk(args.rate, folder)
    args.job = "lora"
    held_out = os.path.join(folder, "held_out.jsonl")
    write_rows(held_out, args.rows * EVALUATED, vocabulary, args.tokens)
    evaluates = {"test_datasets": [{"path": held_out, "type": ""}], "eval_strategy": "steps", "eval_steps": 1, "eval_on_start": True}

    def timed(order, keys):
        begin = time.monotonic()
        result = run_modes.train(args, f"{EVALUATION}, {order}", ON_DISK | ORDERS[order] | {"max_steps": 1} | keys, {}, rows, folder)
        return result | {"order": order, "row": EVALUATION, "run_seconds": time.monotonic() - begin}

    timed("horizontal", {})
    results = []
    for _ in range(args.repeats):
        for order in ("horizontal", "vertical"):
            without, result = timed(order, {}), timed(order, evaluates)
            result["evaluation_seconds"] = (result["run_seconds"] - without["run_seconds"]) / 2
            result["evaluation_mb"] = (moved_mb(result, "disk_read") - moved_mb(without, "disk_read")) / 2
            results.append(result)
    losses = [result["final_evaluation"] for result in results]
    if any(one != losses[0] for one in losses):
        sys.exit(f"[run_vertical] expected the same losses of evaluations in both orders, got {losses}")
    return results


def print_evaluation(results):
    def median(order, key):
        return statistics.median(result[key] for result in results if result["order"] == order)
    for order in ("horizontal", "vertical"):
        took = median(order, "evaluation_seconds")
        print(f"| {EVALUATION} | {order} | {took:.2f} | | {median(order, 'evaluation_mb'):.0f} | | | "
              f"{median('horizontal', 'evaluation_seconds') / took:.2f} |", flush=True)


def moved_mb(result, lane):
    return result["lanes"].get(lane, {"bytes": 0})["bytes"] / len(result["step_seconds"]) / 1e6


def print_row(name, results):
    plain = statistics.median(seconds(r) for r in results if r["order"] == "horizontal")
    for order in (*ORDERS, "peer"):
        runs = sorted((r for r in results if r["order"] == order), key=seconds)
        if not runs:
            continue
        result = runs[len(runs) // 2]
        columns = ["", "", "", ""]
        if order != "peer":
            columns = [f"{result['step']['predicted_seconds'] / seconds(result):.2f}", f"{moved_mb(result, 'disk_read'):.0f}",
                       f"{moved_mb(result, 'disk_write'):.0f}", run_modes.mib(result["tiers"]["device"]["measured_peak_bytes"])]
        print(f"| {name} | {order} | {seconds(result):.2f} | {' | '.join(columns)} | {plain / seconds(result):.2f} |", flush=True)


def seconds(result):
    return statistics.median(result["step_seconds"][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--only", nargs="+", choices=[*ROWS, EVALUATION], default=[*ROWS, EVALUATION], help="some rows only")
    parser.add_argument("--auto", action="store_true", help="also in the order that the plan chooses")
    parser.add_argument("--rate", type=float, default=40e6, help="bytes a second that the disk gives")
    parser.add_argument("--fast", type=float, default=20, help="the factor of the fast disk")
    parser.add_argument("--peer-python", help="python of a venv with bench/peers/requirements.txt; none: Spillway alone")
    parser.add_argument("--rows", type=int, default=1, help="rows of a micro-batch")
    parser.add_argument("--tokens", type=int, default=128, help="tokens per row")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", help="file for the raw numbers")
    run_modes.add_machine_arguments(parser)
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(args.model, "tokenizer.json"), encoding="utf-8") as file:
            vocabulary = len(json.load(file)["model"]["vocab"])
        rows = os.path.join(folder, "rows.jsonl")
        write_rows(rows, args.rows * args.steps * max(row["accumulation"] for row in ROWS.values()), vocabulary, args.tokens)
        print("| row | order | step, s | predicted / it | from the disk a step, MB | to it, MB | device MiB | speed-up |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for name in args.only:
            if name == EVALUATION:
                of_row = runs_of_evaluation(args, vocabulary, rows, folder)
                print_evaluation(of_row)
                results += of_row
                continue
            of_row = runs_of(args, name, rows, folder)
            print_row(name, of_row)
            results += of_row
    write_results(args, results)


if __name__ == "__main__":
    main()
