#!/usr/bin/env python3
"""Trains with TRL and PEFT on already tokenised rows and prints one JSON line: seconds of each step, loss, memory.

Run it from a venv with bench/peers/requirements.txt; bench/run_sft.py calls it beside Spillway on the same rows.
"""

import argparse
import json
import os
import statistics

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face folder")
parser.add_argument("rows", help="jsonl with input_ids, all of one length")
parser.add_argument("--job", choices=["lora", "full"], default="lora")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--rows-per-step", type=int, default=4)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--target-modules", nargs="+", default="all-linear")
parser.add_argument("--learning-rate", type=float, default=1e-4)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import tempfile

import datasets
import trl

from trl_shared import StepClock, config_arguments, measured, prepare, trainer_arguments


def main():
    prepare(args.threads)
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line)["input_ids"] for line in file][:args.steps * args.rows_per_step]
    clock = StepClock()
    with tempfile.TemporaryDirectory() as scratch:
        trl.SFTTrainer(
            **trainer_arguments(args, clock), train_dataset=datasets.Dataset.from_dict({"input_ids": rows}),
            args=trl.SFTConfig(
                **config_arguments(args), output_dir=scratch, per_device_train_batch_size=args.rows_per_step,
                max_length=len(rows[0]), shuffle_dataset=False)).train()

    step_tokens = args.rows_per_step * len(rows[0])
    median = statistics.median(clock.seconds[2:])
    print(json.dumps(measured(args, clock) | {
        "job": args.job, "dtype": args.dtype, "gradient_checkpointing": args.gradient_checkpointing,
        "step_tokens": step_tokens, "tokens_per_second": step_tokens / median}))


main()
