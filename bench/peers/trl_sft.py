#!/usr/bin/env python3
"""Trains with TRL and PEFT on already tokenised rows and prints one JSON line: seconds of each step, loss, memory.

Run it from a venv with bench/peers/requirements.txt; bench/run_sft.py calls it beside Spillway on the same rows.
"""

import argparse
import json
import os
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face folder")
parser.add_argument("rows", help="jsonl with input_ids, all of one length")
parser.add_argument("--job", choices=["lora", "full"], default="lora")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--rows-per-step", type=int, default=4)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--learning-rate", type=float, default=1e-4)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import datasets
import peft
import torch
import transformers
import trl


class StepClock(transformers.TrainerCallback):
    """Wall time of each optimizer step, from taking the batch to the weights' update, and its loss."""

    def __init__(self):
        self.seconds, self.losses = [], []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.start)

    def on_log(self, _args, _state, _control, logs=None, **__):
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main():
    torch.set_num_threads(args.threads)
    datasets.disable_progress_bars()
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line)["input_ids"] for line in file][:args.steps * args.rows_per_step]

    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32 if args.dtype == "f32" else torch.bfloat16)
    lora = peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, lora_dropout=0.0, target_modules="all-linear",
                           task_type="CAUSAL_LM")
    clock = StepClock()
    trainer = trl.SFTTrainer(
        model=model,
        processing_class=transformers.AutoTokenizer.from_pretrained(args.model),
        train_dataset=datasets.Dataset.from_dict({"input_ids": rows}),
        peft_config=lora if args.job == "lora" else None,
        callbacks=[clock],
        args=trl.SFTConfig(
            output_dir="/tmp/unused", save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
            max_steps=args.steps, per_device_train_batch_size=args.rows_per_step, max_length=len(rows[0]),
            learning_rate=args.learning_rate, lr_scheduler_type="constant", weight_decay=0.0,
            optim="adamw_torch_fused", bf16=False, gradient_checkpointing=args.gradient_checkpointing,
            logging_steps=1, logging_strategy="steps", shuffle_dataset=False))
    trainer.train()

    step_tokens = args.rows_per_step * len(rows[0])
    median = statistics.median(clock.seconds[2:])
    print(json.dumps({
        "program": f"trl {trl.__version__}, peft {peft.__version__}, torch {torch.__version__}",
        "job": args.job, "dtype": args.dtype, "gradient_checkpointing": args.gradient_checkpointing,
        "threads": args.threads, "step_tokens": step_tokens, "step_seconds": clock.seconds,
        "tokens_per_second": step_tokens / median, "losses": clock.losses, "peak_rss_bytes": peak_rss_bytes(),
    }))


main()
