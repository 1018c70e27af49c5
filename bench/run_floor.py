#!/usr/bin/env python3
"""Measures the share of the products' rate that a whole training step reaches, on this CPU and on the same CPU limited to AVX2.

    bench/run_floor.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/floor-MACHINE.json

The floor of a step is 4 flops per parameter and token for LoRA, 6 for full fine-tuning, over the faster of the rates that
torch reaches in f32 and bf16 products right before and right after the run (the mean of both). Attention and the factors of
LoRA are not in it. A step is 4 rows of 512 tokens; the step is the median, the first two left out. All jobs run
`--repeats` times in turn, and the table has the repeat of the median share. `--isa avx2` limits Spillway, MKL, oneDNN and
torch's own kernels alike.
Prints a table and writes every raw number to --out.
"""

import argparse
import glob
import itertools
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import run_sft

FLOPS_PER_PARAMETER = {"lora": 4, "full": 6}
LIMITED = {"avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}}


def count_parameters(model):
    total = 0
    for path in glob.glob(os.path.join(model, "*.safetensors")):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        total += sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    return total


def product_rates(args, isa):
    command = [args.peer_python, os.path.join(run_sft.HERE, "peers", "torch_products.py"), "--threads", str(args.threads)]
    environment = dict(os.environ, **LIMITED.get(isa, {}))
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def measure(args, isa, job, dtype, rows, folder):
    before = product_rates(args, isa)
    args.isa = None if isa == "native" else isa
    result = run_sft.run_spillway(args, job, dtype, rows, tempfile.mkdtemp(dir=folder))
    after = product_rates(args, isa)
    floor = max((before[kind] + after[kind]) / 2 for kind in ("f32", "bf16"))
    speed = run_sft.tokens_per_second(result)
    result.update({"isa": isa, "job": job, "dtype": dtype, "products_before": before, "products_after": after,
                   "floor_flops_per_second": floor, "tokens_per_second": speed,
                   "share": speed * FLOPS_PER_PARAMETER[job] * args.parameters / floor})
    return result


def print_table(results):
    print("| kernels | job | torch's products, GFLOP/s | floor, tokens/s | Spillway, tokens/s | share of the floor (least to most) |")
    print("| --- | --- | --- | --- | --- | --- |")
    kinds = {(result["isa"], result["job"], result["dtype"]): None for result in results}  # in their order
    for isa, job, dtype in kinds:
        repeats = sorted((r for r in results if (r["isa"], r["job"], r["dtype"]) == (isa, job, dtype)), key=lambda r: r["share"])
        result = repeats[len(repeats) // 2]
        print(f"| {isa} | {job}, {dtype} | {result['floor_flops_per_second'] / 1e9:.0f} "
              f"| {result['tokens_per_second'] / result['share']:.0f} | {result['tokens_per_second']:.0f} "
              f"| {100 * result['share']:.0f} % ({100 * repeats[0]['share']:.0f} to {100 * repeats[-1]['share']:.0f}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer-python", required=True, help="python of a venv with bench/peers/requirements.txt")
    parser.add_argument("--spillway", default=os.path.join(run_sft.ROOT, "build", "release", "bin", "spillway"))
    parser.add_argument("--isas", nargs="+", default=["native", "avx2"], choices=["native", "avx2"])
    parser.add_argument("--jobs", nargs="+", default=["lora", "full"], choices=["lora", "full"])
    parser.add_argument("--dtypes", nargs="+", default=["bf16", "f32"], choices=["f32", "bf16"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", help="file for the raw numbers")
    args = parser.parse_args()
    args.parameters = count_parameters(args.model)

    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)["vocab_size"]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.jsonl")
        run_sft.write_rows(rows, run_sft.ROWS_PER_STEP * args.steps, vocabulary)
        for isa, job, dtype in list(itertools.product(args.isas, args.jobs, args.dtypes)) * args.repeats:
            results.append(measure(args, isa, job, dtype, rows, folder))
            print(f"{isa} {job} {dtype}: {100 * results[-1]['share']:.0f} %", file=sys.stderr, flush=True)
    print_table(results)
    run_sft.write_results(args, results)


if __name__ == "__main__":
    main()
