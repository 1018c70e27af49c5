#!/usr/bin/env python3
"""Trains with TRL's DPOTrainer on pairs of text and prints one JSON line: seconds of each step, loss, memory.

Run it from a venv with bench/peers/requirements.txt; bench/run_preference.py calls it beside Spillway on the same rows.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face folder with a tokenizer")
parser.add_argument("rows", help="jsonl with prompt, chosen and rejected")
parser.add_argument("--job", choices=["lora", "full"], default="lora")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--pairs-per-step", type=int, default=2)
parser.add_argument("--max-length", type=int, default=512)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--learning-rate", type=float, default=1e-5)
parser.add_argument("--precompute", action="store_true", help="reference log-probabilities before the first step")
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TRANSFORMERS_VERBOSITY="error",
                  TQDM_DISABLE="1")

import tempfile

import datasets
import transformers
import trl

from trl_shared import StepClock, config_arguments, measured, prepare, trainer_arguments


def make_trainer(clock, scratch):
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:args.steps * args.pairs_per_step]
    return trl.DPOTrainer(
        **trainer_arguments(args, clock), train_dataset=datasets.Dataset.from_list(rows),
        args=trl.DPOConfig(
            **config_arguments(args), output_dir=scratch, per_device_train_batch_size=args.pairs_per_step,
            max_length=args.max_length, beta=0.1, precompute_ref_log_probs=args.precompute,
            train_sampling_strategy="sequential"))


def main():
    prepare(args.threads)
    clock = StepClock()
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        trainer = make_trainer(clock, scratch)
        ready = time.perf_counter()
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(json.dumps(measured(args, clock) | {"prepare_seconds": ready - start,
                                              "num_tokens": clock.logged("num_tokens")}))


main()
