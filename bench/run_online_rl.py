#!/usr/bin/env python3
"""Online RL (GRPO), Spillway beside TRL + PEFT, and the generation by itself beside transformers.

    bench/run_online_rl.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/online-rl-MACHINE.json

A step is 64 completions of exactly 64 tokens, 8 each of 8 prompts: generation, a reward over token ids, and one pass of training in
micro-batches of 8. TRL runs with and without gradient checkpointing. `generate`: 64 prompts, up to 64 new tokens each, greedy, all
at once; tokens per second are those of a run with all tokens less a run with one token a prompt (transformers: the faster of f32 and
bf16). All programs run in turn, `--repeats` times, so that they meet the same noise. Peak memory is the kernel's figure for the
process (wait4). Step times are medians, the first left out. Prints a table and writes every raw number to --out.
"""

import json
import os
import random
import statistics
import sys
import tempfile

import run_generate
from run_preference import WORDS
from run_sft import HERE, argument_parser, run, run_in_turn, train_spillway, write_results

COMPLETIONS, GROUP, MICRO_BATCH, TOKENS, PROMPT_WORDS, WARMUP_STEPS = 64, 8, 8, 64, 24, 1
RANK, LEARNING_RATE = 16, 1e-5


def prompts(count):
    rng = random.Random(1)
    return [" ".join(rng.choice(WORDS) for _ in range(PROMPT_WORDS)) for _ in range(count)]


def write_prompts(path, count):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"prompt": text}) + "\n" for text in prompts(count))


def spillway_config(args, job, dtype, rows):
    config = {
        "base_model": args.model, "rl": "grpo", "datasets": [{"path": rows, "ds_type": "json"}],
        "trl": {"num_generations": GROUP, "max_completion_length": TOKENS, "generation_kwargs": {"min_new_tokens": TOKENS},
                "reward_funcs": ["get_repetition_penalty_reward"], "beta": 0.0, "loss_type": "dapo"},
        "micro_batch_size": MICRO_BATCH, "gradient_accumulation_steps": COMPLETIONS // MICRO_BATCH, "max_steps": args.steps,
        "curriculum_sampling": True, "learning_rate": LEARNING_RATE, "lr_scheduler": "constant", "optimizer": "adamw_torch_fused",
        "weight_decay": 0.0, "bf16": dtype == "bf16", "logging_steps": 1, "save_strategy": "no",
    }
    if job == "lora":
        config.update({"adapter": "lora", "lora_r": RANK, "lora_alpha": 2 * RANK, "lora_dropout": 0.0, "lora_target_linear": True})
    return config


def run_spillway(args, job, dtype, rows, folder):
    result, steps, report = train_spillway(args, spillway_config(args, job, dtype, rows), folder)
    return result | {"generation_seconds": [line["generation_seconds"] for line in steps],
                     "mean_lengths": [line["completions/mean_length"] for line in steps],
                     "generation": report["generation"]}


def train_trl(args, job, dtype, rows, extra=()):
    output, rss = run([args.peer_python, os.path.join(HERE, "peers", "trl_grpo.py"), args.model, rows, "--job", job, "--dtype", dtype,
                       "--steps", str(args.steps), "--completions", str(COMPLETIONS), "--micro-batch", str(MICRO_BATCH),
                       "--generations", str(GROUP), "--tokens", str(TOKENS), "--rank", str(RANK),
                       "--learning-rate", str(LEARNING_RATE), "--threads", str(args.threads), *extra], args.threads)
    return {**json.loads(output.splitlines()[-1]), "peak_rss_bytes": rss}


PROGRAMS = {
    "spillway": run_spillway,
    "trl": lambda args, job, dtype, rows, _folder: train_trl(args, job, dtype, rows),
    "trl, checkpointing": lambda args, job, dtype, rows, _folder: train_trl(args, job, dtype, rows, ["--gradient-checkpointing"]),
}


def generate(args, names, folder):
    """The generation by itself, in turn: results as those of training have them."""
    texts, results = prompts(COMPLETIONS), []
    ways = {"spillway": lambda: run_generate.rate(lambda tokens: run_generate.spillway(args, texts, tokens, folder), TOKENS),
            "transformers": lambda: run_generate.peer(args, texts, TOKENS, folder)}
    for _ in range(args.repeats):
        for name in ("spillway", "transformers"):
            if name in names or (name == "transformers" and "trl" in names):
                results.append({"name": name, "job": "generate", "load_before": os.getloadavg()[0], **ways[name]()})
                print(f"{name} generate: {results[-1]['tokens_per_s']:.0f} tokens/s", file=sys.stderr, flush=True)
    return results


def median_step(result):
    return statistics.median(result["step_seconds"][WARMUP_STEPS:])


def speed(result):
    if any(length != TOKENS for length in result["mean_lengths"]):
        sys.exit(f"[{result['name']}] expected completions of {TOKENS} tokens, got {result['mean_lengths']}; the programs did not do the same work")
    return f"{median_step(result):.1f} s a step"


def print_table(results):
    print("| job | program | generation, tokens/s | step, s (min .. max) | of it generation, s | peak RSS |")
    print("| --- | --- | ---: | --- | ---: | ---: |")
    for result in results:
        if result["job"] == "generate":
            print(f"| generate | {result['name']} | {result['tokens_per_s']:.0f} | | | |")
            continue
        seconds, generation = result["step_seconds"][WARMUP_STEPS:], statistics.median(result["generation_seconds"][WARMUP_STEPS:])
        print(f"| {result['job']}, {result['dtype']} | {result['name']} | {COMPLETIONS * TOKENS / generation:.0f} | {median_step(result):.1f} "
              f"({min(seconds):.1f} .. {max(seconds):.1f}) | {generation:.1f} | {result['peak_rss_bytes'] / 2**30:.2f} GiB |")


def main():
    parser = argument_parser(__doc__, ["generate", "lora", "full"], ["generate", "lora"], 4)
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), help="all, unless said otherwise")
    args = parser.parse_args()
    names = [name for name in args.programs or PROGRAMS if name == "spillway" or args.peer_python]
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "prompts.jsonl")
        write_prompts(rows, COMPLETIONS // GROUP * args.steps)
        results = generate(args, names, folder) if "generate" in args.jobs else []
        args.jobs = [job for job in args.jobs if job != "generate"]
        results += run_in_turn(args, PROGRAMS, names, rows, folder, speed)
    print_table(results)
    write_results(args, results)


if __name__ == "__main__":
    main()
