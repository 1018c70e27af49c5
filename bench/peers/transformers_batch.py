#!/usr/bin/env python3
"""Prints a JSON list, for f32 and for bf16: tokens per second of greedy generation with transformers, all prompts in one
batch, padded on the left.

Run it from a venv with bench/peers/requirements.txt; bench/run_generate.py calls it beside Spillway.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--prompts", required=True, help="a JSON list of texts")
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch
import transformers


def measure(dtype, name):
    """Without the first token of each prompt, as for Spillway."""
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model, padding_side="left")
    tokenizer.pad_token = tokenizer.eos_token
    with open(args.prompts, encoding="utf-8") as file:
        texts = json.load(file)
    inputs = tokenizer(texts, return_tensors="pt", padding=True)

    def generate(tokens):
        start = time.perf_counter()
        output = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        seconds = time.perf_counter() - start
        # Behind the end of an answer there is padding, which is the same token here.
        return seconds, int((output[:, inputs["input_ids"].shape[1]:] != tokenizer.eos_token_id).sum())

    generate(2)
    (few, first), (many, last) = generate(1), generate(args.tokens)
    return {"dtype": name, "tokens_per_s": (last - first) / (many - few), "seconds": many, "tokens": last,
            "transformers": transformers.__version__, "torch": torch.__version__}


torch.set_num_threads(args.threads)
print(json.dumps([measure(torch.float32, "f32"), measure(torch.bfloat16, "bf16")]))
