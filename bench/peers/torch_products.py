#!/usr/bin/env python3
"""Prints one JSON line: flops a second that torch reaches in products of a small model's layers, f32 and bf16.

Run it from a venv with bench/peers/requirements.txt; bench/run_floor.py calls it before and after each job.
"""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument("--cpu-time", action="store_true", help="clock the process' CPU time: of one thread beside other programs")
args = parser.parse_args()
clock = time.process_time if args.cpu_time else time.perf_counter

os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch

SHAPES = ((2048, 576, 1536), (2048, 1536, 576), (2048, 576, 576))  # rows, in, out


def best_seconds(x, w):
    best = float("inf")
    for _ in range(args.rounds):
        start = clock()
        torch.nn.functional.linear(x, w)
        best = min(best, clock() - start)
    return best


def rate(dtype):
    """Over all shapes together, each in its best time."""
    flops = seconds = 0
    for rows, inputs, outputs in SHAPES:
        flops += 2 * rows * inputs * outputs
        seconds += best_seconds(torch.randn(rows, inputs).to(dtype), torch.randn(outputs, inputs).to(dtype))
    return flops / seconds


torch.set_num_threads(args.threads)
print(json.dumps({"torch": torch.__version__, "f32": rate(torch.float32), "bf16": rate(torch.bfloat16)}))
