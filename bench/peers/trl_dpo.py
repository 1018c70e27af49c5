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
import peft
import torch
import transformers
import trl


class StepClock(transformers.TrainerCallback):
    """Wall time of each optimizer step, from taking the batch to the weights' update, and what TRL logs of it."""

    def __init__(self):
        self.seconds, self.losses, self.tokens = [], [], []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.start)

    def on_log(self, _args, _state, _control, logs=None, **__):
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])
            self.tokens.append(logs["num_tokens"])


def make_trainer(clock, scratch):
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:args.steps * args.pairs_per_step]
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32 if args.dtype == "f32" else torch.bfloat16)
    lora = peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0, target_modules="all-linear",
                           task_type="CAUSAL_LM")
    return trl.DPOTrainer(
        model=model,
        processing_class=transformers.AutoTokenizer.from_pretrained(args.model),
        train_dataset=datasets.Dataset.from_list(rows),
        peft_config=lora if args.job == "lora" else None,
        callbacks=[clock],
        args=trl.DPOConfig(
            output_dir=scratch, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
            max_steps=args.steps, per_device_train_batch_size=args.pairs_per_step, max_length=args.max_length,
            learning_rate=args.learning_rate, lr_scheduler_type="constant", weight_decay=0.0, beta=0.1,
            optim="adamw_torch_fused", bf16=False, gradient_checkpointing=args.gradient_checkpointing,
            precompute_ref_log_probs=args.precompute, logging_steps=1, logging_strategy="steps",
            train_sampling_strategy="sequential"))


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main():
    torch.set_num_threads(args.threads)
    datasets.disable_progress_bars()
    clock = StepClock()
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        trainer = make_trainer(clock, scratch)
        ready = time.perf_counter()
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(json.dumps({
        "program": f"trl {trl.__version__}, peft {peft.__version__}, torch {torch.__version__}",
        "prepare_seconds": ready - start, "step_seconds": clock.seconds, "losses": clock.losses, "num_tokens": clock.tokens,
        "threads": args.threads, "peak_rss_bytes": peak_rss_bytes(),
    }))


main()
