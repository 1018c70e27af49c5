#!/usr/bin/env python3
"""Supervised fine-tuning, Spillway beside TRL + PEFT: tokens per second and peak memory on the same rows.

    bench/run_sft.py MODEL_FOLDER --peer-python ~/peers/bin/python --out bench/results/sft-MACHINE.json

Each job (LoRA and full, f32 and bf16) runs in both programs, one after the other, `--repeats` times in turn, so that
both meet the same noise. Peak memory is the kernel's figure for the process (wait4), the same measure for both. A step is
4 rows of 512 tokens; tokens per second is from the median step, the first two left out.
Prints a table and writes every raw number to --out.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ROWS_PER_STEP, ROW_TOKENS, WARMUP_STEPS = 4, 512, 2


def write_rows(path, rows, vocabulary, tokens=ROW_TOKENS):
    """Writes already tokenised rows of random tokens: what a step costs does not depend on what they say."""
    rng = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(rows):
            ids = [rng.randrange(100, vocabulary) for _ in range(tokens)]
            file.write(json.dumps({"input_ids": ids, "labels": ids, "attention_mask": [1] * tokens}) + "\n")


def run(command, threads):
    """Runs `command`; returns (standard output, peak resident bytes). Stops the benchmark if it fails."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{errors.read().decode(errors='replace')[-2000:]}")
        return output.read().decode(), usage.ru_maxrss * 1024


def train_spillway(args, config, folder):
    """Returns what a training took: a result, the lines of its steps, and its report. The config's output_dir is FOLDER/out."""
    path = os.path.join(folder, "config.yml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config | {"output_dir": os.path.join(folder, "out")}, file)  # JSON is YAML
    limit = ["--isa", args.isa] if args.isa else []
    _, rss = run([args.spillway, "train", path, *limit], args.threads)
    with open(os.path.join(folder, "out", "metrics.jsonl"), encoding="utf-8") as file:
        steps = [line for line in map(json.loads, file) if "step_seconds" in line]
    with open(os.path.join(folder, "out", "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    return ({"step_seconds": [line["step_seconds"] for line in steps], "losses": [line["loss"] for line in steps],
             "peak_rss_bytes": rss, "tiers": report["tiers"], "process": report["process"]}, steps, report)


def job_config(args, job, dtype, rows, rows_per_step=ROWS_PER_STEP, tokens=ROW_TOKENS):
    """A config of Spillway: `full` or `lora` training on the file `rows`, one micro-batch a step."""
    config = {
        "base_model": args.model, "datasets": [{"path": rows, "type": ""}], "sequence_len": tokens,
        "micro_batch_size": rows_per_step, "gradient_accumulation_steps": 1, "max_steps": args.steps,
        "shuffle_merged_datasets": False, "curriculum_sampling": True, "learning_rate": 1e-4, "lr_scheduler": "constant",
        "optimizer": "adamw_torch_fused", "weight_decay": 0.0, "bf16": dtype == "bf16", "save_strategy": "no",
    }
    if job == "lora":
        config.update({"adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "lora_target_linear": True})
    return config


def run_spillway(args, job, dtype, rows, folder):
    return train_spillway(args, job_config(args, job, dtype, rows), folder)[0]


def run_trl(args, job, dtype, rows, _folder):
    output, rss = run([args.peer_python, os.path.join(HERE, "peers", "trl_sft.py"), args.model, rows, "--job", job,
                       "--dtype", dtype, "--steps", str(args.steps), "--threads", str(args.threads)], args.threads)
    result = json.loads(output.splitlines()[-1])
    return {"step_seconds": result["step_seconds"], "losses": result["losses"], "peak_rss_bytes": rss,
            "program": result["program"]}


PROGRAMS = {"spillway": run_spillway, "trl": run_trl}


def tokens_per_second(result):
    return ROWS_PER_STEP * ROW_TOKENS / statistics.median(result["step_seconds"][WARMUP_STEPS:])


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def find_commit():
    """Returns the commit of this working tree; "unknown" in a copy of its files alone."""
    try:
        found = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def write_results(args, results):
    """Writes every raw number to --out, where that is given, with what it takes to measure them again."""
    if not args.out:
        return
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"cpu": cpu_name(), "threads": args.threads, "commit": find_commit(),
                   "command": sys.argv, "results": results}, file, indent=1)


def print_table(results):
    print("| job | program | tokens/s | peak RSS | step, s (min .. max) | loss, first and last |")
    print("| --- | --- | --- | --- | --- | --- |")
    for result in results:
        seconds = result["step_seconds"][WARMUP_STEPS:]
        print(f"| {result['job']}, {result['dtype']} | {result['name']} | {tokens_per_second(result):.0f} "
              f"| {result['peak_rss_bytes'] / 2**30:.2f} GiB | {min(seconds):.2f} .. {max(seconds):.2f} "
              f"| {result['losses'][0]:.4f}, {result['losses'][-1]:.4f} |")


def argument_parser(description, jobs, default_jobs, steps):
    """Returns the parser of a bench that runs programs beside each other."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer-python", help="python of a venv with bench/peers/requirements.txt; none: Spillway alone")
    parser.add_argument("--spillway", default=os.path.join(ROOT, "build", "release", "bin", "spillway"))
    parser.add_argument("--jobs", nargs="+", default=default_jobs, choices=jobs)
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"], choices=["f32", "bf16"])
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isa", help="limits Spillway to this instruction set")
    parser.add_argument("--out", help="file for the raw numbers")
    return parser


def run_in_turn(args, programs, names, rows, folder, speed):
    """Runs each program on each job and dtype, one after the other, --repeats times. `speed` says a result in words."""
    results = []
    for job in args.jobs:
        for dtype in args.dtypes:
            for _ in range(args.repeats):
                for name in names:
                    load = os.getloadavg()[0]
                    result = programs[name](args, job, dtype, rows, tempfile.mkdtemp(dir=folder))
                    result.update({"name": name, "job": job, "dtype": dtype, "load_before": load})
                    results.append(result)
                    print(f"{name} {job} {dtype}: {speed(result)}, load was {load:.1f}", file=sys.stderr, flush=True)
    return results


def main():
    args = argument_parser(__doc__, ["lora", "full"], ["lora", "full"], 8).parse_args()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)["vocab_size"]
    names = [name for name in PROGRAMS if name != "trl" or args.peer_python]
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.jsonl")
        write_rows(rows, ROWS_PER_STEP * args.steps, vocabulary)
        results = run_in_turn(args, PROGRAMS, names, rows, folder, lambda result: f"{tokens_per_second(result):.0f} tokens/s")

    print_table(results)
    write_results(args, results)


if __name__ == "__main__":
    main()
