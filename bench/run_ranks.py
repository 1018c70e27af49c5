#!/usr/bin/env python3
"""Trains a model on one process and on several ranks of this machine, and prints what the ranks cost as Markdown.

usage: bench/run_ranks.py MODEL [--steps N] [--rounds N] [--kinds lora,qlora,full,grpo] [--tokens N] [--json FILE]
MODEL is a folder; SPILLWAY names another program than build/release/bin/spillway. In a round each kind of training runs on one
process with all CPUs, then on 2 ranks at every stage, with the same 4 rows in a step: a row of the table is of one round after the
other, so that what else the machine does falls on all of it. Rates are medians over the steps of all rounds but the first of each
run; a ratio is the median over the rounds of the ratio within a round. A step of grpo generates 16 completions of 32 tokens, 4 each
of 4 prompts, and trains on them, full; at stage 3 with weights that are gathered once a round, and layer by layer. Then 4 ranks train in full at stage 3, for the memory of the
largest of them.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPILLWAY = os.environ.get("SPILLWAY", os.path.join(ROOT, "build", "release", "bin", "spillway"))
ROWS_OF_STEP = 4
COMPLETION_TOKENS = 32
KINDS = {"lora": {"adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_target_linear": True},
         "qlora": {"adapter": "qlora", "load_in_4bit": True, "lora_r": 16, "lora_alpha": 32, "lora_target_linear": True},
         "full": {},
         "grpo": {"rl": "grpo", "curriculum_sampling": True, "micro_batch_size": 4,
                  "trl": {"num_generations": 4, "max_completion_length": COMPLETION_TOKENS, "beta": 0.0,
                          "generation_kwargs": {"min_new_tokens": COMPLETION_TOKENS},
                          "reward_funcs": ["get_repetition_penalty_reward"]}}}
# The columns of the table: a stage, and of grpo how its weights come at stage 3.
WAYS = {"stage 0": {"zero_stage": 0}, "stage 1": {"zero_stage": 1}, "stage 2": {"zero_stage": 2}, "stage 3": {"zero_stage": 3}}
GATHERED, STREAMED = "stage 3", "stage 3, layer by layer"


def write_rows(path, tokens):
    words = "the rows of a step are the same on any number of ranks while each of them has some to learn from".split()
    source = random.Random(7)
    with open(path, "w") as file:
        for _ in range(256):
            file.write(json.dumps({"text": " ".join(source.choice(words) for _ in range(2 * tokens))}) + "\n")
    with open(path.replace("rows", "prompts"), "w") as file:
        for _ in range(256):
            file.write(json.dumps({"prompt": " ".join(source.choice(words) for _ in range(24))}) + "\n")


def ways_of(kind):
    if kind != "grpo":
        return WAYS
    at_three = {"zero_stage": 3}
    return {**WAYS, GATHERED: {**at_three, "ds3_gather_for_generation": True},
            STREAMED: {**at_three, "ds3_gather_for_generation": False}}


def train(folder, name, args, kind, ranks, way):
    """Returns the rates of the steps behind the first, the seconds until the first was done, and the report."""
    out = os.path.join(folder, name)
    config = {"base_model": args.model, "datasets": [{"path": os.path.join(folder, "rows.jsonl"), "type": "completion"}],
              "sequence_len": args.tokens, "micro_batch_size": 1, "gradient_accumulation_steps": ROWS_OF_STEP // ranks,
              "learning_rate": 1e-4, "optimizer": "adamw_torch", "max_steps": args.steps, "bf16": True, "output_dir": out,
              "save_strategy": "no", "micro_batch_order": "horizontal", **KINDS[kind], **way}
    if kind == "grpo":
        config["datasets"] = [{"path": os.path.join(folder, "prompts.jsonl"), "ds_type": "json"}]
        del config["sequence_len"]
    path = os.path.join(folder, name + ".yml")
    with open(path, "w") as file:
        json.dump(config, file)  # JSON is YAML
    begin = time.monotonic()
    command = [SPILLWAY, "train", path] + (["--ranks", str(ranks)] if ranks > 1 else [])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    first = None
    for line in process.stderr:
        if first is None and line.startswith("step 1/"):
            first = time.monotonic() - begin
    if process.wait() != 0:
        raise SystemExit(f"{name} ended with status {process.returncode}")
    with open(os.path.join(out, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    if kind == "grpo":
        generated = ROWS_OF_STEP * KINDS[kind]["micro_batch_size"] * COMPLETION_TOKENS
        rates = [generated / line["step_seconds"] for line in lines if "step_seconds" in line][1:]
    else:
        rates = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line][1:]
    with open(os.path.join(out, "report.json")) as file:
        return rates, first, json.load(file)


def measure(folder, args):
    results = {}
    for turn in range(args.rounds):
        for kind in args.kinds.split(","):
            for number, (column, way) in enumerate([("one process", {}), *ways_of(kind).items()]):
                ranks = 1 if column == "one process" else 2
                rates, first, report = train(folder, f"{kind}-{number}-{turn}", args, kind, ranks, way)
                entry = results.setdefault(f"{kind}, {column if ranks == 1 else f'2 ranks, {column}'}",
                                           {"rates": [], "first_step_seconds": []})
                entry["rates"].append(rates)
                entry["first_step_seconds"].append(first)
                entry["cpu_share"] = report["cpu_share"]
                entry["peer_bytes_per_step"] = report["lanes"]["peer"]["bytes"] / max(1, report["steps"])
    return results


def ratio(results, kind, column):
    """The median over the rounds of the rate on 2 ranks over that of one process."""
    one, two = results[f"{kind}, one process"]["rates"], results[f"{kind}, 2 ranks, {column}"]["rates"]
    return statistics.median(statistics.median(b) / statistics.median(a) for a, b in zip(one, two))


def largest_of_four(folder, args):
    """Returns the planned device bytes of 4 ranks at stage 3, and the largest that was measured."""
    _, _, report = train(folder, "four", args, "full", 4, {"zero_stage": 3})
    planned = report["ranks"][0]["tiers"]["device"]["planned_peak_bytes"]
    return planned, max(rank["tiers"]["device"]["measured_peak_bytes"] for rank in report["ranks"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default="lora,qlora,full,grpo")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_rows(os.path.join(folder, "rows.jsonl"), args.tokens)
        train(folder, "warm", args, args.kinds.split(",")[0], 1, {})  # measures the machine, where that is still to do
        results = measure(folder, args)
        print("| | one process, tokens/s | stage 0 | stage 1 | stage 2 | stage 3 | sent a step at stage 3 |\n"
              "| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for kind in args.kinds.split(","):
            one = statistics.median(rate for rates in results[f"{kind}, one process"]["rates"] for rate in rates)
            sent = results[f"{kind}, 2 ranks, stage 3"]["peer_bytes_per_step"]
            print(f"| {kind} | {one:.0f} | " + " | ".join(f"{ratio(results, kind, column):.2f}" for column in WAYS)
                  + f" | {sent / 2**20:.1f} MiB |")
            if kind == "grpo":
                print(f"\ngrpo at {STREAMED}: {ratio(results, kind, STREAMED):.2f}")
        for name, entry in results.items():
            if "one process" in name or "stage 2" in name:
                print(f"\n{name}: first step after {statistics.median(entry['first_step_seconds']):.1f} s", end="")
        planned, measured = largest_of_four(folder, args)
        print(f"\n\n4 ranks, full, stage 3: {planned / 2**20:.1f} MiB planned on each, {measured / 2**20:.1f} MiB measured on the largest")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
