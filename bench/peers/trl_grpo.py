#!/usr/bin/env python3
"""Trains with TRL's GRPOTrainer on prompts and prints one JSON line: seconds of each step, of its generation, loss, memory.

Run it from a venv with bench/peers/requirements.txt; bench/run_online_rl.py calls it beside Spillway on the same prompts.
Completions have exactly --tokens tokens, so that each step does the same work.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face folder with a tokenizer")
parser.add_argument("rows", help="jsonl with prompt")
parser.add_argument("--job", choices=["lora", "full"], default="lora")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--completions", type=int, default=64, help="of a step")
parser.add_argument("--micro-batch", type=int, default=8)
parser.add_argument("--generations", type=int, default=8, help="of a prompt")
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--learning-rate", type=float, default=1e-5)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TRANSFORMERS_VERBOSITY="error",
                  TQDM_DISABLE="1")

import tempfile

import datasets
import transformers
import trl
from trl.rewards import get_repetition_penalty_reward

from trl_shared import StepClock, config_arguments, measured, prepare, trainer_arguments


class TimedTrainer(trl.GRPOTrainer):
    def _generate_single_turn(self, *a, **k):
        start = time.perf_counter()
        made = super()._generate_single_turn(*a, **k)
        self.__dict__.setdefault("generation_seconds", []).append(time.perf_counter() - start)
        return made


def make_trainer(clock, scratch):
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return TimedTrainer(
        **trainer_arguments(args, clock), train_dataset=datasets.Dataset.from_list(rows),
        reward_funcs=[get_repetition_penalty_reward()],
        args=trl.GRPOConfig(
            **config_arguments(args), output_dir=scratch, per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.completions // args.micro_batch, num_generations=args.generations,
            max_completion_length=args.tokens, generation_kwargs={"min_new_tokens": args.tokens}, beta=0.0, loss_type="dapo",
            shuffle_dataset=False))


def main():
    prepare(args.threads)
    clock = StepClock()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = make_trainer(clock, scratch)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(json.dumps(measured(args, clock) | {"generation_seconds": trainer.generation_seconds,
                                              "mean_lengths": clock.logged("completions/mean_length")}))


main()
