#!/usr/bin/env python3
"""LoRA over quantised bases, Spillway beside transformers + bitsandbytes + PEFT: tokens per second and peak memory on the same rows.

    bench/run_quant.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/quant-MODEL-MACHINE.json

Jobs are LoRA of rank 16 on all linear layers over a base in NF4 with double quantisation, in int8, and as it is (`dense`), which is the
reference; each program quantises the weights as it loads them. The programs run in turn, `--repeats` times, so that they meet the same noise.
A step is `--rows` rows of `--tokens` tokens; its time is the median, the first two left out. Peak memory is the kernel's figure for the
process (wait4). Prints the runs, and what they reach of the dense base and of the peer's faster dtype; writes every raw number to --out.
"""

import json
import os
import statistics
import tempfile

from run_sft import HERE, WARMUP_STEPS, argument_parser, job_config, run, run_in_turn, train_spillway, write_results, write_rows

BASES = {"dense": {}, "nf4": {"adapter": "qlora", "load_in_4bit": True}, "int8": {"load_in_8bit": True}}


def run_spillway(args, job, dtype, rows, folder):
    return train_spillway(args, job_config(args, "lora", dtype, rows, args.rows, args.tokens) | BASES[job], folder)[0]


def run_peer(args, job, dtype, rows, extra=()):
    output, rss = run([args.peer_python, os.path.join(HERE, "peers", "torch_sft.py"), args.model, rows, "--device", "cpu",
                       "--base", job, "--dtype", dtype, "--steps", str(args.steps), "--rows-per-step", str(args.rows),
                       "--threads", str(args.threads), *extra], args.threads)
    return {**json.loads(output.splitlines()[-1]), "peak_rss_bytes": rss}


PROGRAMS = {
    "spillway": run_spillway,
    "transformers": lambda args, job, dtype, rows, _folder: run_peer(args, job, dtype, rows),
    "transformers, checkpointing": lambda args, job, dtype, rows, _folder: run_peer(args, job, dtype, rows,
                                                                                    ["--gradient-checkpointing"]),
}


def step_seconds(result):
    return statistics.median(result["step_seconds"][WARMUP_STEPS:])


def print_runs(args, results):
    print("| base, dtype | program | tokens/s | of its dense base | peak RSS | step, s (min .. max) | loss, first and last |")
    print("| --- | --- | ---: | ---: | ---: | --- | --- |")
    for result in results:
        seconds = result["step_seconds"][WARMUP_STEPS:]
        dense = [step_seconds(other) for other in results
                 if (other["name"], other["dtype"], other["job"]) == (result["name"], result["dtype"], "dense")]
        share = f"{statistics.median(dense) / step_seconds(result):.2f}" if dense else ""
        print(f"| {result['job']}, {result['dtype']} | {result['name']} | {args.rows * args.tokens / step_seconds(result):.0f} | {share} "
              f"| {result['peak_rss_bytes'] / 2**30:.2f} GiB | {min(seconds):.2f} .. {max(seconds):.2f} "
              f"| {result['losses'][0]:.4f}, {result['losses'][-1]:.4f} |")


def print_ratios(results):
    """Spillway's faster dtype beside the fastest, and the smallest, of the peer's runs of a base."""
    print("\n| base | tokens/s of the fastest peer's | peak RSS of that run's | of the smallest peer's |")
    print("| --- | ---: | ---: | ---: |")
    for job in dict.fromkeys(result["job"] for result in results):
        own = [result for result in results if result["job"] == job and result["name"] == "spillway"]
        peers = [result for result in results if result["job"] == job and result["name"] != "spillway"]
        if not own or not peers:
            continue
        best, fastest = min(own, key=step_seconds), min(peers, key=step_seconds)
        smallest = min(peer["peak_rss_bytes"] for peer in peers)
        print(f"| {job} | {step_seconds(fastest) / step_seconds(best):.2f} | {best['peak_rss_bytes'] / fastest['peak_rss_bytes']:.2f} "
              f"| {best['peak_rss_bytes'] / smallest:.2f} |")


def main():
    parser = argument_parser(__doc__, list(BASES), list(BASES), 6)
    parser.add_argument("--rows", type=int, default=1, help="rows of a step")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of a row")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=["spillway", "transformers"])
    args = parser.parse_args()
    names = [name for name in args.programs if name == "spillway" or args.peer_python]
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)["vocab_size"]

    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.jsonl")
        write_rows(rows, args.rows * args.steps, vocabulary, args.tokens)
        results = run_in_turn(args, PROGRAMS, names, rows, folder,
                              lambda result: f"{args.rows * args.tokens / step_seconds(result):.0f} tokens/s")

    print_runs(args, results)
    print_ratios(results)
    write_results(args, results)


if __name__ == "__main__":
    main()
