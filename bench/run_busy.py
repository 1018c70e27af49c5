#!/usr/bin/env python3
"""Generating and training while other programs want the same cores, beside transformers and TRL.

    bench/run_busy.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/busy-MACHINE.json

Runs each program on the quiet machine, beside `--others` busy loops of idle priority, and beside as many of equal
priority. The fair share is the quiet time over the share of the cores that the scheduler owes to `threads` among
`threads + others` runnable threads; it means something where `kernel.sched_autogroup_enabled` is 0 or all of this runs in
one session, as it does here. Generation is seconds per token, greedy, without the first token; a training step is
LoRA in bf16 on 4 rows of 128 tokens, the median of the steps after two. Prints a table and writes every raw number to --out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import run_sft

PROMPT = "The history of the city begins"
ROW_TOKENS, GENERATED, ROUNDS = 128, 32, 3


class Others:
    """Busy loops, while it lives: `count` of them, of idle priority or of this process's."""

    def __init__(self, count, is_idle):
        loop = [sys.executable, "-c", "while True: pass"]
        self.processes = [subprocess.Popen((["chrt", "-i", "0"] if is_idle else []) + loop) for _ in range(count)]

    def __enter__(self):
        time.sleep(1)

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def generate(args):
    """Seconds per token: of a run with many tokens less one with a single token, the median of some rounds."""
    def seconds(tokens):
        start = time.perf_counter()
        output, _ = run_sft.run([args.spillway, "generate", args.model, "--prompt", PROMPT, "--max-new-tokens", str(tokens),
                                 "--json"], args.threads)
        return time.perf_counter() - start, len(json.loads(output)["ids"])

    rounds = []
    for _ in range(ROUNDS):
        (few, first), (many, last) = seconds(1), seconds(GENERATED + 1)
        rounds.append((many - few) / (last - first))
    return statistics.median(rounds)


def generate_peer(args):
    output, _ = run_sft.run([args.peer_python, os.path.join(run_sft.HERE, "peers", "transformers_generate.py"), args.model,
                             "--prompt", PROMPT, "--tokens", str(GENERATED), "--rounds", str(ROUNDS)], args.threads)
    result = json.loads(output.splitlines()[-1])
    return min(result["f32"], result["bf16"])


def step(program):
    def seconds(args):
        with tempfile.TemporaryDirectory() as folder:
            result = program(args, "lora", "bf16", args.rows, folder)
        return statistics.median(result["step_seconds"][run_sft.WARMUP_STEPS:])
    return seconds


MEASURED = {"generate, Spillway": generate, "generate, transformers": generate_peer,
            "LoRA step, Spillway": step(run_sft.run_spillway), "LoRA step, TRL": step(run_sft.run_trl)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer-python", required=True, help="python of a venv with bench/peers/requirements.txt")
    parser.add_argument("--spillway", default=os.path.join(run_sft.ROOT, "build", "release", "bin", "spillway"))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--others", type=int, default=4)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", help="file for the raw numbers")
    args = parser.parse_args()
    args.isa = None

    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)["vocab_size"]
    states = {"quiet": (0, False), f"beside {args.others} of idle priority": (args.others, True),
              f"beside {args.others} of equal priority": (args.others, False)}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        args.rows = os.path.join(folder, "rows.jsonl")
        run_sft.write_rows(args.rows, run_sft.ROWS_PER_STEP * args.steps, vocabulary, ROW_TOKENS)
        for state, (others, is_idle) in states.items():
            for name, measure in MEASURED.items():
                with Others(others, is_idle):
                    results.append({"state": state, "name": name, "seconds": measure(args)})
                print(f"{state}: {name} {results[-1]['seconds']:.4f} s", file=sys.stderr, flush=True)

    print(f"| seconds | {' | '.join(states)} | fair share |")
    print("| --- |" + " ---: |" * (len(states) + 1))
    for name in MEASURED:
        seconds = [result["seconds"] for result in results if result["name"] == name]
        cores = len(os.sched_getaffinity(0))
        fair = seconds[0] * max(1, (args.threads + args.others) / cores)
        print(f"| {name} | {' | '.join(f'{value:.4f}' for value in seconds)} | {fair:.4f} |")
    run_sft.write_results(args, results)


if __name__ == "__main__":
    main()
