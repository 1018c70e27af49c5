#!/usr/bin/env python3
"""Trains a LoRA adapter with transformers and PEFT over layers that accelerate keeps on the disk; prints one JSON line.

Run it from a venv with bench/peers/requirements.txt; bench/run_vertical.py calls it beside Spillway on the same rows.
The frozen weights of the layers come from files for each pass (accelerate's AlignDevicesHook), and activations are
computed again, without which accelerate's weights would stay until the backward pass. Files are read by pread, not by
mmap, so that bench/limited_disk.c can hold the reads to a rate.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", help="Hugging Face folder")
parser.add_argument("rows", help="jsonl with input_ids, all of one length")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--accumulation", type=int, default=4)
parser.add_argument("--rows-per-micro-batch", type=int, default=1)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--learning-rate", type=float, default=1e-4)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import tempfile

import peft
import torch
import transformers
from accelerate.hooks import AlignDevicesHook, add_hook_to_module


class WeightFiles(dict):
    """Weights by name, each in a file of its own, read anew each time."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def write(self, name, tensor):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(tensor.contiguous().view(torch.uint8).numpy().tobytes())
        self[name] = (os.open(path, os.O_RDONLY), tensor.dtype, tensor.shape)

    def __getitem__(self, name):
        file, dtype, shape = super().__getitem__(name)
        size = shape.numel() * dtype.itemsize
        content = bytearray()
        while len(content) < size:
            content += os.pread(file, size - len(content), len(content))
        return torch.frombuffer(content, dtype=dtype).view(shape)


class Prefixed:
    """The weights of one module, as its hook asks for them."""

    def __init__(self, files, prefix):
        self.files, self.prefix = files, prefix

    def __getitem__(self, name):
        return self.files[self.prefix + name]


def offload(model, files):
    for name, module in model.named_modules():
        own = list(module.named_parameters(recurse=False))
        if ".layers." not in name or not own or any(parameter.requires_grad for _, parameter in own):
            continue
        for key, parameter in own:
            files.write(f"{name}.{key}", parameter.detach())
        add_hook_to_module(module, AlignDevicesHook(execution_device="cpu", offload=True,
                                                    weights_map=Prefixed(files, f"{name}.")))


def main():
    torch.set_num_threads(args.threads)
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line)["input_ids"] for line in file]
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16)
    model = peft.get_peft_model(model, peft.LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules="all-linear",
                                                       task_type="CAUSAL_LM"))
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.learning_rate, weight_decay=0)
    with tempfile.TemporaryDirectory() as folder:
        offload(model, WeightFiles(folder))
        step_seconds, losses, at = [], [], 0
        for _ in range(args.steps):
            begin, sum_of_losses = time.perf_counter(), 0.0
            for _ in range(args.accumulation):
                ids = torch.tensor(rows[at:at + args.rows_per_micro_batch])
                at += args.rows_per_micro_batch
                loss = model(input_ids=ids, labels=ids).loss / args.accumulation
                loss.backward()
                sum_of_losses += loss.item()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step_seconds.append(time.perf_counter() - begin)
            losses.append(sum_of_losses)
    print(json.dumps({"step_seconds": step_seconds, "losses": losses}))


main()
