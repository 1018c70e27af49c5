#!/usr/bin/env python3
"""Preference training (DPO), Spillway beside TRL + PEFT: pairs per second and peak memory on the same rows.

    bench/run_preference.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/preference-MACHINE.json

A step is 2 pairs, each of two sequences of 512 tokens, and takes the policy forward and backward and the reference forward. Jobs:
`lora`, whose reference is the model with its adapter off; `full`, whose reference is a second model; `precompute`, lora with the
reference's log-probabilities computed before the first step (pairs per second are those of the steps; what precomputing takes is
in the file as far as the program says it). TRL runs with and without gradient checkpointing. All programs run in turn, `--repeats`
times, so that they meet the same noise. Peak memory is the kernel's figure for the process (wait4). Pairs per second are from the
median step, the first two left out. Prints a table and writes every raw number to --out.
"""

import json
import os
import random
import statistics
import sys
import tempfile

from run_sft import HERE, WARMUP_STEPS, argument_parser, run, run_in_turn, train_spillway, write_results

PAIRS_PER_STEP, TOKENS = 2, 512
WORDS = ("the of and to in is it that was for on are with as they be at one have this from or had by hot but some what there we can "
         "out other were all your when up use word how said an each she which do their time if will way about many then them would").split()
RANK, LEARNING_RATE = 16, 1e-5


def write_pairs(path, pairs):
    """Pairs of words at random, longer than the limit that cuts them: what a step costs does not depend on what they say."""
    rng = random.Random(1)

    def text(words):
        return " ".join(rng.choice(WORDS) for _ in range(words))

    with open(path, "w", encoding="utf-8") as file:
        for _ in range(pairs):
            file.write(json.dumps({"prompt": text(TOKENS // 4), "chosen": " " + text(TOKENS), "rejected": " " + text(TOKENS)}) + "\n")


def spillway_config(args, job, dtype, rows):
    config = {
        "base_model": args.model, "rl": "dpo", "rl_beta": 0.1, "datasets": [{"path": rows, "ds_type": "json"}], "max_length": TOKENS,
        "micro_batch_size": PAIRS_PER_STEP, "gradient_accumulation_steps": 1, "max_steps": args.steps,
        "shuffle_merged_datasets": False, "curriculum_sampling": True, "learning_rate": LEARNING_RATE, "lr_scheduler": "constant",
        "optimizer": "adamw_torch_fused", "weight_decay": 0.0, "bf16": dtype == "bf16", "save_strategy": "no",
    }
    if job != "full":
        config.update({"adapter": "lora", "lora_r": RANK, "lora_alpha": 2 * RANK, "lora_dropout": 0.0, "lora_target_linear": True})
    if job == "precompute":
        config["precompute_ref_log_probs"] = True
    return config


def run_spillway(args, job, dtype, rows, folder):
    result, steps, _ = train_spillway(args, spillway_config(args, job, dtype, rows), folder)
    return result | {"num_tokens": [line["num_tokens"] for line in steps]}


def run_trl(args, job, dtype, rows, extra=()):
    output, rss = run([args.peer_python, os.path.join(HERE, "peers", "trl_dpo.py"), args.model, rows, "--job", "full" if job == "full" else "lora",
                       "--dtype", dtype, "--steps", str(args.steps), "--pairs-per-step", str(PAIRS_PER_STEP), "--max-length", str(TOKENS),
                       "--rank", str(RANK), "--learning-rate", str(LEARNING_RATE), "--threads", str(args.threads),
                       *(["--precompute"] if job == "precompute" else []), *extra], args.threads)
    return {**json.loads(output.splitlines()[-1]), "peak_rss_bytes": rss}


PROGRAMS = {
    "spillway": run_spillway,
    "trl": lambda args, job, dtype, rows, _folder: run_trl(args, job, dtype, rows),
    "trl, checkpointing": lambda args, job, dtype, rows, _folder: run_trl(args, job, dtype, rows, ["--gradient-checkpointing"]),
}


def pairs_per_second(result):
    return PAIRS_PER_STEP / statistics.median(result["step_seconds"][WARMUP_STEPS:])


def check_tokens(result):
    """All sequences must be as long as the limit, or the programs did not do the same work."""
    expected = 2 * PAIRS_PER_STEP * TOKENS
    if result["num_tokens"][0] != expected:
        sys.exit(f"[{result['name']}] expected {expected} tokens in the first step, got {result['num_tokens'][0]:.0f}; use a tokenizer that makes "
                 "at least one token of each word")


def print_table(results):
    print("| job | program | pairs/s | peak RSS | step, s (min .. max) | loss, first and last |")
    print("| --- | --- | ---: | ---: | --- | --- |")
    for result in results:
        seconds = result["step_seconds"][WARMUP_STEPS:]
        print(f"| {result['job']}, {result['dtype']} | {result['name']} | {pairs_per_second(result):.3f} "
              f"| {result['peak_rss_bytes'] / 2**30:.2f} GiB | {min(seconds):.2f} .. {max(seconds):.2f} "
              f"| {result['losses'][0]:.4f}, {result['losses'][-1]:.4f} |")


def main():
    parser = argument_parser(__doc__, ["lora", "full", "precompute"], ["lora"], 6)
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), help="all, unless said otherwise")
    args = parser.parse_args()
    names = [name for name in args.programs or PROGRAMS if name == "spillway" or args.peer_python]

    def speed(result):
        check_tokens(result)
        return f"{pairs_per_second(result):.3f} pairs/s"

    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "pairs.jsonl")
        write_pairs(rows, PAIRS_PER_STEP * args.steps)
        results = run_in_turn(args, PROGRAMS, names, rows, folder, speed)

    print_table(results)
    write_results(args, results)


if __name__ == "__main__":
    main()
