#!/usr/bin/env python3
"""Prints one JSON line: seconds per token of greedy generation with transformers, in f32 and in bf16.

Run it from a venv with bench/peers/requirements.txt; bench/run_busy.py calls it beside Spillway.
"""

import argparse
import json
import os
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--prompt", required=True)
parser.add_argument("--tokens", type=int, default=32)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch
import transformers


def seconds_per_token(dtype):
    """The median round; the time to the first token is not in it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    inputs = tokenizer(args.prompt, return_tensors="pt")

    def generate(tokens):
        start = time.perf_counter()
        model.generate(**inputs, min_new_tokens=tokens, max_new_tokens=tokens, do_sample=False)
        return time.perf_counter() - start

    generate(2)
    return statistics.median((generate(args.tokens + 1) - generate(1)) / args.tokens for _ in range(args.rounds))


torch.set_num_threads(args.threads)
print(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__,
                  "f32": seconds_per_token(torch.float32), "bf16": seconds_per_token(torch.bfloat16)}))
