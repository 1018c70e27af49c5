#!/usr/bin/env python3
"""LoRA of a video transformer on the CPU: Spillway beside diffusers, PEFT and torch, on the same clips.

    pip install torch diffusers peft safetensors
    python bench/run_video.py build/release/bin/spillway FOLDER [--steps 6] > bench/results/video.md

The model has the shape of Wan 2.1 1.3B's blocks, six of them, with random weights; a clip is 3 x 32 x 32 latents (768
patches) beside 512 rows of text. LoRA of rank 16 on all linear layers of the blocks, checkpointing on for both sides,
f32; torch also in bf16, and the faster of its two counts. The floor is arithmetic: products and attention, forward,
once more for checkpointing, and twice for the backward, at the speed of a square product of torch in the same minutes.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

SHAPE, TEXT, WIDTH, FFN, BLOCKS, RANK = (16, 3, 32, 32), 512, 1536, 8960, 6, 16
CONFIG = dict(patch_size=(1, 2, 2), num_attention_heads=12, attention_head_dim=128, in_channels=16, out_channels=16,
              text_dim=4096, freq_dim=256, ffn_dim=FFN, num_layers=BLOCKS)
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "ffn.net.0.proj", "ffn.net.2"]
PATCHES = SHAPE[1] * SHAPE[2] * SHAPE[3] // 4


def make(folder):
    import torch
    from diffusers import WanTransformer3DModel
    from safetensors.torch import save_file
    if (folder / "clips").exists():
        return
    torch.manual_seed(0)
    WanTransformer3DModel(**CONFIG).save_pretrained(folder / "model" / "transformer")
    (folder / "clips").mkdir(parents=True)
    for i in range(4):
        save_file({"latents": torch.randn(SHAPE), "text_embedding": torch.randn(TEXT, 4096),
                   "noise": torch.randn(SHAPE), "timestep": torch.rand(1) * 1000}, folder / "clips" / f"{i}.safetensors")


def run_peer(folder, dtype, steps):
    """In a process of its own: prints a JSON line."""
    import torch
    from diffusers import WanTransformer3DModel
    from peft import LoraConfig
    from safetensors.torch import load_file
    model = WanTransformer3DModel.from_pretrained(folder / "model" / "transformer", torch_dtype=getattr(torch, dtype))
    model.requires_grad_(False)
    model.enable_gradient_checkpointing()
    model.train()
    model.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=TARGETS))
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.data = p.data.float() if dtype == "float32" else p.data
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    rows = [load_file(folder / "clips" / f"{i}.safetensors") for i in range(4)]
    seconds, losses = [], []
    for step in range(steps):
        begin = time.perf_counter()
        row = rows[step % 4]
        sigma = row["timestep"] / 1000
        x = (1 - sigma) * row["latents"] + sigma * row["noise"]
        flow = model(hidden_states=x[None].to(model.dtype), timestep=row["timestep"],
                     encoder_hidden_states=row["text_embedding"][None].to(model.dtype), return_dict=False)[0][0]
        loss = ((flow.float() - (row["noise"] - row["latents"])) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
    print(json.dumps({"seconds": statistics.median(seconds[1:]), "loss": losses[0],
                      "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def run_ours(spillway, folder, steps, extra):
    out = folder / "out"
    subprocess.run(["rm", "-rf", str(out)], check=True)
    config = folder / "config.yml"
    config.write_text(f"""
base_model: {folder}/model/transformer
datasets: [{{path: {folder}/clips, type: video_latents}}]
adapter: lora
lora_r: {RANK}
lora_target_linear: true
gradient_checkpointing: true
curriculum_sampling: true
micro_batch_size: 1
max_steps: {steps}
learning_rate: 1e-4
lr_scheduler: constant
bf16: false
save_strategy: "no"
output_dir: {out}
{extra}
""")
    subprocess.run([spillway, "train", str(config)], check=True, capture_output=True)
    report = json.loads((out / "report.json").read_text())
    first = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    return {"seconds": report["step"]["median_seconds"], "loss": first["loss"], "rss": report["process"]["peak_rss_bytes"]}


def flops():
    linear = 2 * (6 * WIDTH * WIDTH + 2 * WIDTH * FFN) * PATCHES + 2 * 2 * WIDTH * WIDTH * TEXT
    attention = 4 * PATCHES * PATCHES * WIDTH + 4 * PATCHES * TEXT * WIDTH
    # Frozen weights have no gradient: a backward is one product a layer, and five for attention's two.
    return BLOCKS * (3 * linear + (1 + 1 + 2.5) * attention)


def product_rate(dtype):
    import torch
    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
    rates = []
    for _ in range(7):
        begin = time.perf_counter()
        a @ b
        rates.append(2 * 2048**3 / (time.perf_counter() - begin))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spillway")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_peer(args.folder, args.peer, args.steps)
    make(args.folder)
    import torch
    rows = []
    peers = {}
    for dtype in ("float32", "bfloat16"):
        done = subprocess.run([sys.executable, __file__, args.spillway, str(args.folder), "--steps", str(args.steps),
                               "--peer", dtype], check=True, capture_output=True, text=True)
        peers[dtype] = json.loads(done.stdout.splitlines()[-1])
        rows.append((f"diffusers + PEFT, {dtype}", peers[dtype]))
    rows.append(("Spillway, f32, all weights resident", run_ours(args.spillway, args.folder, args.steps, "")))
    rows.append(("Spillway, f32, blocks from disk",
                 run_ours(args.spillway, args.folder, args.steps,
                          "layer_offloading: disk\nmemory: {device: 700MiB, host: 64MiB, disk: 8GiB}")))
    rate = product_rate(torch.float32)
    floor = flops() / rate
    best = min(peers.values(), key=lambda one: one["seconds"])
    print("# LoRA of a video transformer on the CPU\n")
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads; "
          f"median of {args.steps - 1} steps; `python bench/run_video.py`. Floor: {flops() / 1e12:.2f} TFLOP at "
          f"{rate / 1e9:.0f} GFLOP/s, torch's square f32 product in the same minutes: {floor:.1f} s.\n")
    print("| | s a step | patches/s | of the faster peer | share of the floor | peak RSS MiB | of the faster peer |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, one in rows:
        print(f"| {name} | {one['seconds']:.2f} | {PATCHES / one['seconds']:.0f} | "
              f"{best['seconds'] / one['seconds']:.2f} | {floor / one['seconds']:.2f} | {one['rss'] / 2**20:.0f} | "
              f"{one['rss'] / best['rss']:.2f} |")
    print(f"\nLoss of the first step: torch {peers['float32']['loss']:.6f}, ours {rows[2][1]['loss']:.6f}.")


if __name__ == "__main__":
    main()
