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
import peft
import torch
import transformers
import trl
from trl.rewards import get_repetition_penalty_reward


class StepClock(transformers.TrainerCallback):
    """Wall time of each optimizer step, generation included, and what TRL logs of it."""

    def __init__(self):
        self.seconds, self.losses, self.lengths = [], [], []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.start)

    def on_log(self, _args, _state, _control, logs=None, **__):
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])
            self.lengths.append(logs["completions/mean_length"])


class TimedTrainer(trl.GRPOTrainer):
    def _generate_single_turn(self, *a, **k):
        start = time.perf_counter()
        made = super()._generate_single_turn(*a, **k)
        self.__dict__.setdefault("generation_seconds", []).append(time.perf_counter() - start)
        return made


def make_trainer(clock, scratch):
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32 if args.dtype == "f32" else torch.bfloat16)
    lora = peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0, target_modules="all-linear",
                           task_type="CAUSAL_LM")
    return TimedTrainer(
        model=model,
        processing_class=transformers.AutoTokenizer.from_pretrained(args.model),
        train_dataset=datasets.Dataset.from_list(rows),
        reward_funcs=[get_repetition_penalty_reward()],
        peft_config=lora if args.job == "lora" else None,
        callbacks=[clock],
        args=trl.GRPOConfig(
            output_dir=scratch, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
            max_steps=args.steps, per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.completions // args.micro_batch, num_generations=args.generations,
            max_completion_length=args.tokens, generation_kwargs={"min_new_tokens": args.tokens}, beta=0.0, loss_type="dapo",
            learning_rate=args.learning_rate, lr_scheduler_type="constant", weight_decay=0.0,
            optim="adamw_torch_fused", bf16=False, gradient_checkpointing=args.gradient_checkpointing, logging_steps=1,
            shuffle_dataset=False))


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main():
    torch.set_num_threads(args.threads)
    datasets.disable_progress_bars()
    clock = StepClock()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = make_trainer(clock, scratch)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(json.dumps({
        "program": f"trl {trl.__version__}, peft {peft.__version__}, torch {torch.__version__}",
        "step_seconds": clock.seconds, "generation_seconds": trainer.generation_seconds, "losses": clock.losses,
        "mean_lengths": clock.lengths, "threads": args.threads, "peak_rss_bytes": peak_rss_bytes(),
    }))


main()
