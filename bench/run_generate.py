#!/usr/bin/env python3
"""Answering many prompts at once, beside one at a time and beside transformers.

    bench/run_generate.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/generate-MACHINE.json

32 prompts of 20 to 60 tokens, 48 new tokens each at most, greedy. Tokens per second are those of a run with all tokens less a run
with one token a prompt, so that starting and reading the prompts count for neither; prompts per second of the whole run are in
the file. One at a time: the first 2 of them, each alone. transformers gets the 32 as one padded batch. The median of some rounds,
all in turn. Prints a table and writes every raw number to --out.
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

PROMPTS, ALONE, GENERATED, ROUNDS = 32, 2, 48, 3
TOPICS = ["the capital of France", "the steam engine", "a cat who learned to code", "the colour of the sky"]
WAYS = {"spillway, 32 at once": PROMPTS, "spillway, one at a time": 1, "transformers, 32 at once": PROMPTS}


def prompts():
    return [f"Number {i}. Write a long text about {TOPICS[i % 4]} and " + "very " * (i * 7 % 41) + "carefully explain it."
            for i in range(PROMPTS)]


def spillway(args, texts, tokens, folder):
    """(seconds, new tokens) of one process."""
    path = os.path.join(folder, "prompts.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"prompt": text}) + "\n" for text in texts)
    start = time.perf_counter()
    output, _ = run_sft.run([args.spillway, "generate", args.model, "--lines", path, "--json-lines", "--max-new-tokens",
                             str(tokens)], args.threads)
    seconds = time.perf_counter() - start
    return seconds, sum(len(json.loads(line)["ids"]) for line in output.splitlines())


def rate(run, tokens=GENERATED):
    """Tokens per second of run(tokens), without its first token."""
    (few, first), (many, last) = run(1), run(tokens)
    return {"tokens_per_s": (last - first) / (many - few), "seconds": many, "tokens": last}


def alone(args, folder):
    def run(tokens):
        each = [spillway(args, [text], tokens, folder) for text in prompts()[:ALONE]]
        return sum(seconds for seconds, _ in each), sum(count for _, count in each)
    return rate(run)


def peer(args, texts, tokens, folder):
    """transformers' rate: the faster of f32 and bf16."""
    path = os.path.join(folder, "texts.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(texts, file)
    output, _ = run_sft.run([args.peer_python, os.path.join(run_sft.HERE, "peers", "transformers_batch.py"), args.model,
                             "--prompts", path, "--tokens", str(tokens), "--threads", str(args.threads)], args.threads)
    return max(json.loads(output), key=lambda result: result["tokens_per_s"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--spillway", default=os.path.join(run_sft.HERE, "..", "build", "release", "bin", "spillway"))
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rounds = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            rounds["spillway, 32 at once"].append(rate(lambda tokens: spillway(args, prompts(), tokens, folder)))
            rounds["spillway, one at a time"].append(alone(args, folder))
            rounds["transformers, 32 at once"].append(peer(args, prompts(), GENERATED, folder))
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"cpu": run_sft.cpu_name(), "threads": args.threads, "rounds": rounds}, file, indent=1)
    medians = {way: statistics.median(r["tokens_per_s"] for r in of_way) for way, of_way in rounds.items()}
    first = medians["spillway, 32 at once"]
    print("| | tokens/s | of the first |\n| --- | ---: | ---: |")
    for way, median in medians.items():
        print(f"| {way} | {median:.0f} | {median / first:.3f} |")


if __name__ == "__main__":
    sys.exit(main())
