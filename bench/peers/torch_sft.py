#!/usr/bin/env python3
"""Trains with transformers and PEFT in a bare PyTorch loop on already tokenised rows; prints one JSON line.

The fastest that these libraries are without further ones: SDPA attention, fused AdamW, no trainer around the loop. --base nf4 or
int8 has bitsandbytes quantise the frozen weights as they are loaded. Run it from a venv with bench/peers/requirements.txt;
bench/run_gpu.py and bench/run_quant.py call it beside Spillway on the same rows.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face folder")
parser.add_argument("rows", help="jsonl with input_ids, all of one length")
parser.add_argument("--device", default="cuda")
parser.add_argument("--job", choices=["lora", "full"], default="lora")
parser.add_argument("--base", choices=["dense", "nf4", "int8"], default="dense")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="bf16")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--rows-per-step", type=int, default=4)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import peft
import torch
import transformers

DTYPE = torch.float32 if args.dtype == "f32" else torch.bfloat16
QUANTISED = {
    "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": DTYPE},
    "int8": {"load_in_8bit": True},
}


def load_model():
    keys = {"dtype": DTYPE, "attn_implementation": "sdpa"}
    if args.base == "dense":
        model = transformers.AutoModelForCausalLM.from_pretrained(args.model, **keys).to(args.device)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            args.model, **keys, device_map=args.device, quantization_config=transformers.BitsAndBytesConfig(**QUANTISED[args.base]))
        for parameter in model.parameters():  # the quantised ones are already
            parameter.requires_grad_(False)
    model.train()
    if args.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    if args.job == "lora":
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear",
                                                           task_type="CAUSAL_LM"))
    return model


def main():
    torch.set_num_threads(args.threads)
    with open(args.rows, encoding="utf-8") as file:
        rows = torch.tensor([json.loads(line)["input_ids"] for line in file][:args.steps * args.rows_per_step])
    on_gpu = args.device.startswith("cuda")
    model = load_model()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, weight_decay=0.0, fused=True)
    seconds, losses = [], []
    for batch in rows.split(args.rows_per_step):
        start = time.perf_counter()
        ids = batch.to(args.device)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "program": f"transformers {transformers.__version__}, peft {peft.__version__}, torch {torch.__version__}",
        "step_seconds": seconds, "losses": losses,
        "device_peak_bytes": torch.cuda.max_memory_reserved() if on_gpu else None,
    }))


main()
