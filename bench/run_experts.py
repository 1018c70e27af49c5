#!/usr/bin/env python3
"""Mixtures of experts, Spillway beside TRL + PEFT: tokens per second and peak memory on the same rows.

    tools/make_random_model.py experts-64 FOLDER
    bench/run_experts.py FOLDER --peer-python ~/peers/bin/python --out bench/results/experts-MACHINE.json

LoRA on the projections of attention beside frozen experts, and full training: transformers multiplies the rows of all
experts by its `grouped_mm`. Spillway runs with resident experts, with experts in host memory and with experts on the disk
(`--disk FOLDER` holds the scratch space). Else as bench/run_sft.py, whose steps of 4 rows of 512 tokens these are. Prints a table and
writes every raw number to --out.
"""

import functools
import json
import os
import sys
import tempfile

from run_sft import (HERE, ROWS_PER_STEP, argument_parser, job_config, print_table, run, run_in_turn, tokens_per_second,
                     train_spillway, write_results, write_rows)

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def run_spillway(args, job, dtype, rows, folder, experts=None):
    config = job_config(args, job, dtype, rows)
    if experts:
        config["expert_offload"] = experts
    if experts == "disk" and args.disk:
        config["memory"] = {"disk_paths": [args.disk]}
    if job == "lora":
        del config["lora_target_linear"]
        config["lora_target_modules"] = ATTENTION
    return train_spillway(args, config, folder)[0]


def run_trl(args, job, dtype, rows, _folder):
    output, rss = run([args.peer_python, os.path.join(HERE, "peers", "trl_sft.py"), args.model, rows, "--job", job, "--dtype", dtype,
                       "--steps", str(args.steps), "--threads", str(args.threads), "--target-modules", *ATTENTION], args.threads)
    result = json.loads(output.splitlines()[-1])
    return {key: result[key] for key in ("step_seconds", "losses", "program")} | {"peak_rss_bytes": rss}


PROGRAMS = {"spillway": run_spillway,
            "spillway, experts in host memory": functools.partial(run_spillway, experts="host"),
            "spillway, experts on the disk": functools.partial(run_spillway, experts="disk"),
            "trl": run_trl}


def print_memory(results):
    """Prints the planned and the measured peak of the device tier, which the experts have left or not."""
    print()
    print("| job | program | device peak, planned | measured |")
    print("| --- | --- | --- | --- |")
    for result in results:
        if device := result.get("tiers", {}).get("device"):
            print(f"| {result['job']}, {result['dtype']} | {result['name']} | {device['planned_peak_bytes'] / 2**20:.0f} MiB "
                  f"| {device['measured_peak_bytes'] / 2**20:.0f} MiB |")


def main():
    parser = argument_parser(__doc__, ["lora", "full"], ["lora"], 6)
    parser.add_argument("--disk", help="a folder on the disk to measure")
    args = parser.parse_args()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if "num_experts" not in config and "num_local_experts" not in config:
        sys.exit(f"[{args.model}] expected a mixture of experts, got {config['model_type']}; make one: tools/make_random_model.py")
    names = [name for name in PROGRAMS if name != "trl" or args.peer_python]
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.jsonl")
        write_rows(rows, ROWS_PER_STEP * args.steps, config["vocab_size"])
        results = run_in_turn(args, PROGRAMS, names, rows, folder, lambda result: f"{tokens_per_second(result):.0f} tokens/s")
    print_table(results)
    print_memory(results)
    write_results(args, results)


if __name__ == "__main__":
    main()
