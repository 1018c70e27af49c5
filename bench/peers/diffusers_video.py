#!/usr/bin/env python3
"""Trains LoRA of a Wan transformer with diffusers and PEFT in a bare PyTorch loop; prints one JSON line. --make writes the model.

Flow matching on clips that bring their noise and timestep, one clip a step, checkpointing on. --offload saves what autograd keeps
in pinned host memory by saved-tensor hooks, as FastVideo's pull request 1106 does. Run it from a venv with bench/peers/requirements.txt
and diffusers; bench/run_video.py calls it beside Spillway on the same clips.
"""

import argparse
import contextlib
import json
import os
import resource
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", help="of model/transformer and clips/")
parser.add_argument("--make", metavar="CONFIG", help="write random weights of this config, as JSON, and nothing else")
parser.add_argument("--device", default="cpu")
parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--offload", action="store_true")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS=str(args.threads))

import diffusers
import torch
from safetensors.torch import load_file

MODEL = os.path.join(args.folder, "model", "transformer")
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "ffn.net.0.proj", "ffn.net.2"]
DTYPE = torch.float32 if args.dtype == "f32" else torch.bfloat16


def make_model():
    torch.manual_seed(0)
    model = diffusers.WanTransformer3DModel(**json.loads(args.make))
    model.to(DTYPE).save_pretrained(MODEL)


def load_model():
    from peft import LoraConfig
    model = diffusers.WanTransformer3DModel.from_pretrained(MODEL, torch_dtype=DTYPE).to(args.device)
    model.requires_grad_(False)
    model.enable_gradient_checkpointing()
    model.train()
    model.add_adapter(LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules=TARGETS))
    return model


def main():
    torch.set_num_threads(args.threads)
    if args.make:
        make_model()
        return
    on_gpu = args.device.startswith("cuda")
    model = load_model()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0)
    clips = os.path.join(args.folder, "clips")
    rows = [load_file(os.path.join(clips, name)) for name in sorted(os.listdir(clips))]
    seconds, losses = [], []
    for step in range(args.steps):
        start = time.perf_counter()
        row = {name: tensor.to(args.device) for name, tensor in rows[step % len(rows)].items()}
        sigma = row["timestep"] / 1000
        noisy = (1 - sigma) * row["latents"] + sigma * row["noise"]
        hooks = torch.autograd.graph.save_on_cpu(pin_memory=on_gpu) if args.offload else contextlib.nullcontext()
        with hooks:
            flow = model(hidden_states=noisy[None].to(DTYPE), timestep=row["timestep"],
                         encoder_hidden_states=row["text_embedding"][None].to(DTYPE), return_dict=False)[0][0]
            loss = ((flow.float() - (row["noise"] - row["latents"])) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "program": f"diffusers {diffusers.__version__}, torch {torch.__version__}", "step_seconds": seconds, "losses": losses,
        "device_peak_bytes": torch.cuda.max_memory_reserved() if on_gpu else None,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))


main()
