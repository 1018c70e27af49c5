#!/usr/bin/env python3
"""LoRA of a video transformer: Spillway beside diffusers, PEFT and torch, on the same clips.

    bench/run_video.py FOLDER --peer-python ~/peers/bin/python --out bench/results/video-MACHINE.json
    bench/run_video.py FOLDER --device cuda --blocks 30 --latents 20 60 104 --peer-python ... --out ...

The model has the width of Wan 2.1 1.3B and --blocks blocks with random weights; a clip is --latents frames, rows and columns of
latents (a patch is 1 x 2 x 2) beside 512 rows of text. LoRA of rank 16 on all linear layers of the blocks, checkpointing on for
both programs, one clip a step. On the CPU the peer's faster dtype counts; on a GPU both compute in bf16. The floor is arithmetic:
products and attention forward, once more for checkpointing, and for the gradients of inputs, at the rate of the fastest product
that `spillway doctor` measures in the same run. A run's time is its median step, the first one left out. FOLDER keeps model and
clips. Prints a table; --out gets the raw numbers. The peer's Python needs bench/peers/requirements.txt and diffusers.
"""

import argparse
import json
import os
import statistics
import sys

from run_modes import mib
from run_sft import HERE, ROOT, run, train_spillway, write_results

CHANNELS, TEXT, TEXT_WIDTH, WIDTH, FFN, RANK, CLIPS = 16, 512, 4096, 1536, 8960, 16, 4
LAYERS_ON_DISK = {"layer_offloading": "disk", "memory": {"device": "700MiB", "host": "64MiB", "disk": "8GiB"}}
WAYS = {
    "cpu": {"f32": {"bf16": False}, "f32, blocks from disk": {"bf16": False} | LAYERS_ON_DISK, "bf16": {"bf16": True}},
    "cuda": {"checkpointing": {"bf16": True}, "boundaries on host": {"bf16": True, "activation_offloading": True},
             "boundaries and blocks on host": {"bf16": True, "activation_offloading": True, "layer_offloading": "host"},
             "checkpointing, again": {"bf16": True}},
}
PEERS = {"cpu": {"f32": ["--dtype", "f32"], "bf16": ["--dtype", "bf16"]},
         "cuda": {"checkpointing": ["--dtype", "bf16"], "boundaries on host": ["--dtype", "bf16", "--offload"]}}


def peer(args, *more):
    command = [args.peer_python, os.path.join(HERE, "peers", "diffusers_video.py"), args.folder, "--threads", str(args.threads)]
    output, _ = run([*command, *more], args.threads)
    return output


def make(args):
    """Model and clips, each where FOLDER has none of that size."""
    import numpy
    config = {"patch_size": [1, 2, 2], "num_attention_heads": 12, "attention_head_dim": WIDTH // 12, "in_channels": CHANNELS,
              "out_channels": CHANNELS, "text_dim": TEXT_WIDTH, "freq_dim": 256, "ffn_dim": FFN, "num_layers": args.blocks}
    shape = [CHANNELS, *args.latents]
    described = os.path.join(args.folder, "described.json")
    if os.path.exists(described):
        with open(described, encoding="utf-8") as file:
            if json.load(file) == [config, shape]:
                return
    os.makedirs(os.path.join(args.folder, "clips"), exist_ok=True)
    peer(args, "--make", json.dumps(config), "--dtype", "bf16" if args.device == "cuda" else "f32")
    rng = numpy.random.default_rng(0)
    for i in range(CLIPS):
        tensors = {"latents": rng.standard_normal(shape), "text_embedding": rng.standard_normal((TEXT, TEXT_WIDTH)),
                   "noise": rng.standard_normal(shape), "timestep": rng.random(1) * 1000}
        write_safetensors(os.path.join(args.folder, "clips", f"{i}.safetensors"), tensors)
    with open(described, "w", encoding="utf-8") as file:
        json.dump([config, shape], file)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def train(args, keys):
    config = {"base_model": os.path.join(args.folder, "model", "transformer"), "adapter": "lora", "lora_r": RANK, "lora_alpha": RANK,
              "datasets": [{"path": os.path.join(args.folder, "clips"), "type": "video_latents"}], "lora_target_linear": True,
              "gradient_checkpointing": True, "curriculum_sampling": True, "micro_batch_size": 1, "max_steps": args.steps,
              "learning_rate": 1e-4, "lr_scheduler": "constant", "weight_decay": 0.0, "save_strategy": "no", "logging_steps": 1,
              "device": args.device}
    return train_spillway(args, config | {"memory": {"plan": "fixed"}} | keys, args.folder)[0]


def patches(args):
    frames, height, width = args.latents
    return frames * height * width // 4


def flops(args):
    count = patches(args)
    linear = 2 * (6 * WIDTH * WIDTH + 2 * WIDTH * FFN) * count + 2 * 2 * WIDTH * WIDTH * TEXT
    attention = 4 * count * count * WIDTH + 4 * count * TEXT * WIDTH
    # Frozen weights have no gradient: a backward is one product a layer, and five for attention's two.
    return args.blocks * (3 * linear + (1 + 1 + 2.5) * attention)


def seconds(result):
    return statistics.median(result["step_seconds"][1:])


def device_bytes(result):
    return result["tiers"]["device"]["measured_peak_bytes"] if "tiers" in result else result["device_peak_bytes"] or 0


def print_table(args, results, rate):
    floor = flops(args) / rate
    peers = [result for result in results if "tiers" not in result]
    best = min(peers, key=seconds) if peers else None
    print(f"{args.blocks} blocks, {patches(args)} patches. Floor: {flops(args) / 1e12:.2f} TFLOP at {rate / 1e12:.2f} TFLOP/s, "
          f"{floor:.2f} s.\n")
    print("| program | s a step | patches/s | of the faster peer | share of the floor | device MiB | peak RSS MiB | of the faster peer | first loss |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for result in results:
        of_peer = (f"{seconds(best) / seconds(result):.2f}", f"{result['peak_rss_bytes'] / best['peak_rss_bytes']:.2f}") if best else ("", "")
        print(f"| {result['name']} | {seconds(result):.3f} | {patches(args) / seconds(result):.0f} | {of_peer[0]} "
              f"| {floor / seconds(result):.2f} | {mib(device_bytes(result))} | {mib(result['peak_rss_bytes'])} | {of_peer[1]} "
              f"| {result['losses'][0]:.6f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--peer-python", required=True, help="makes the model, too")
    parser.add_argument("--spillway", default=os.path.join(ROOT, "build", "release", "bin", "spillway"))
    parser.add_argument("--device", choices=list(WAYS), default="cpu")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--latents", type=int, nargs=3, default=[3, 32, 32], metavar=("FRAMES", "ROWS", "COLUMNS"))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isa", help="limits Spillway to this instruction set")
    parser.add_argument("--ways", nargs="+", help="some of both programs' ways only, by their names")
    parser.add_argument("--no-peers", action="store_true", help="Spillway alone")
    parser.add_argument("--out", help="file for the raw numbers")
    args = parser.parse_args()
    make(args)
    output, _ = run([args.spillway, "doctor", "--json", "--device", args.device], args.threads)
    rates = [rate for rate in json.loads(output)["compute"] if rate["used"]]
    results = []

    def add(name, measure):
        results.append(measure() | {"name": name})
        print(f"{name}: {seconds(results[-1]):.3f} s a step", file=sys.stderr, flush=True)

    def chosen(ways):
        return {name: way for name, way in ways.items() if not args.ways or name in args.ways}.items()

    for name, keys in chosen(WAYS[args.device]):
        add(f"Spillway, {name}", lambda: train(args, keys))
    for name, options in () if args.no_peers else chosen(PEERS[args.device]):
        more = ["--device", args.device, "--steps", str(args.steps), "--rank", str(RANK), *options]
        add(f"diffusers + PEFT, {name}", lambda: json.loads(peer(args, *more).splitlines()[-1]))
    print_table(args, results, max(rate["flops_per_second"] for rate in rates))
    write_results(args, results)


if __name__ == "__main__":
    main()
