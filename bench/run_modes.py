#!/usr/bin/env python3
"""Every way to place a fine-tuning job: device, host and disk peaks, process memory and tokens per second.

    bench/run_modes.py MODEL_FOLDER --job full --peer-python ~/peers/bin/python --out bench/results/modes-MACHINE.json

Runs one job in each mode, then with `memory.plan: auto` under shares of the plain run's device peak, and, with --peer-python, TRL + PEFT
with and without gradient checkpointing in the same session, `--peer-repeats` times each. A run's speed is that of its
median step, the first two left out; of the peer's runs of a setting, the fastest counts. `plain` runs first and last, so that
a machine that slows down meanwhile shows. Prints a table and writes every raw number to --out.
"""

import argparse
import glob
import json
import os
import statistics
import sys
import tempfile

from run_sft import ROOT, run, write_results, write_rows

WARMUP_STEPS = 2
MODES = {
    "plain": {},
    "checkpointing": {"gradient_checkpointing": True},
    "selective": {"gradient_checkpointing": True, "selective_checkpointing": True},
    "activations -> host": {"activation_offloading": True},
    "checkpointing, boundaries -> host": {"gradient_checkpointing": True, "activation_offloading": True},
    "checkpointing, legacy": {"gradient_checkpointing": True, "activation_offloading": "legacy"},
    "checkpointing, boundaries -> disk": {"gradient_checkpointing": True, "activation_offloading": "disk"},
    "activations -> disk": {"activation_offloading": "disk"},
    "layers on host": {"layer_offloading": "host"},
    "layers on disk": {"layer_offloading": "disk"},
    "state on host": {"optimizer_offload": "host"},
    "state on disk": {"optimizer_offload": "disk"},
    "state and gradients on disk": {"optimizer_offload": "disk", "gradient_offload": "disk"},
    "all on disk, checkpointing": {"optimizer_offload": "disk", "gradient_offload": "disk", "parameter_offload": "disk",
                                   "gradient_checkpointing": True, "activation_offloading": "disk"},
}
LORA_ONLY = {"layers on host", "layers on disk"}
FULL_ONLY = {"state on host", "state on disk", "state and gradients on disk", "all on disk, checkpointing"}
SHARES = (1.0, 0.7, 0.5, 0.3)


def configuration(args, rows, folder):
    config = {
        "base_model": args.model, "datasets": [{"path": rows, "type": ""}], "sequence_len": args.tokens,
        "micro_batch_size": args.rows, "gradient_accumulation_steps": 1, "max_steps": args.steps,
        "shuffle_merged_datasets": False, "curriculum_sampling": True, "learning_rate": 1e-4, "lr_scheduler": "constant",
        "weight_decay": 0.0, "bf16": True, "save_strategy": "no", "output_dir": os.path.join(folder, "out"), "device": args.device,
        "memory": {"disk_paths": [args.scratch or os.path.join(folder, "scratch")]},
    }
    if args.job == "lora":
        config.update({"adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "lora_target_linear": True})
    return config


def add_machine_arguments(parser):
    """Says where and how long train() runs a job."""
    parser.add_argument("--spillway", default=os.path.join(ROOT, "build", "release", "bin", "spillway"))
    parser.add_argument("--scratch", help="folder of the disk tier; left out: beside the output")
    parser.add_argument("--device", default="auto", help="the key `device` of the jobs")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))


def add_job_arguments(parser):
    """The settings that train() and write_job_rows() read."""
    parser.add_argument("model")
    parser.add_argument("--job", default="full", choices=["lora", "full"])
    parser.add_argument("--rows", type=int, default=4, help="rows per step")
    parser.add_argument("--tokens", type=int, default=512, help="tokens per row")
    parser.add_argument("--out", help="file for the raw numbers")
    add_machine_arguments(parser)


def write_job_rows(args, folder):
    """Random rows for all steps, of tokens that the tokenizer has; the path of the file."""
    with open(os.path.join(args.model, "tokenizer.json"), encoding="utf-8") as file:
        vocabulary = len(json.load(file)["model"]["vocab"])
    rows = os.path.join(folder, "rows.jsonl")
    write_rows(rows, args.rows * args.steps, vocabulary, args.tokens)
    return rows


def train(args, name, keys, memory, rows, folder):
    folder = tempfile.mkdtemp(dir=folder)
    config = configuration(args, rows, folder)
    config.update(keys)
    config["memory"].update(memory)
    path = os.path.join(folder, "config.yml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)  # JSON is YAML
    load = os.getloadavg()[0]
    _, rss = run([args.spillway, "train", path], args.threads)
    with open(os.path.join(folder, "out", "metrics.jsonl"), encoding="utf-8") as file:
        steps = [json.loads(line) for line in file if "step_seconds" in line]
    with open(os.path.join(folder, "out", "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    for file in glob.glob(os.path.join(folder, "out", "*.safetensors")):
        os.remove(file)
    return {"name": name, "keys": keys, "memory": memory, "load_before": load, "peak_rss_bytes": rss,
            "step_seconds": [step["step_seconds"] for step in steps], "losses": [step["loss"] for step in steps],
            "tiers": report["tiers"], "process": report["process"], "lanes": report["lanes"], "step": report["step"],
            "final_evaluation": report["final_evaluation"]}


def train_peer(args, checkpointing, rows):
    command = [args.peer_python, os.path.join(ROOT, "bench", "peers", "trl_sft.py"), args.model, rows, "--job", args.job,
               "--dtype", "bf16", "--steps", str(args.steps), "--rows-per-step", str(args.rows), "--threads", str(args.threads)]
    output, rss = run(command + (["--gradient-checkpointing"] if checkpointing else []), args.threads)
    result = json.loads(output.splitlines()[-1])
    return {"name": "TRL + PEFT" + (", checkpointing" if checkpointing else ""), "peak_rss_bytes": rss,
            "step_seconds": result["step_seconds"], "losses": result["losses"], "tiers": None}


def seconds(result):
    return statistics.median(result["step_seconds"][WARMUP_STEPS:])


def mib(number):
    return f"{number / 2**20:.0f}"


def step_ratio(result):
    return result["step"]["predicted_seconds"] / seconds(result)


def process_ratio(result):
    return result["process"]["predicted_rss_bytes"] / result["peak_rss_bytes"]


def print_table(args, results):
    """The ratios are predicted over measured: of the process's memory, and of a step's time."""
    plain = seconds(results[0])
    print("| run | device MiB | host MiB | disk MiB | process MiB | predicted / it | tokens/s | step / plain | predicted / it |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for result in results:
        tiers, speed = result["tiers"], args.rows * args.tokens / seconds(result)
        peaks = [mib(tiers[tier]["measured_peak_bytes"]) for tier in ("device", "host", "disk")] if tiers else ["", "", ""]
        process, step = (f"{process_ratio(result):.3f}", f"{step_ratio(result):.2f}") if tiers else ("", "")
        print(f"| {result['name']} | {' | '.join(peaks)} | {mib(result['peak_rss_bytes'])} | {process} | {speed:.0f} "
              f"| {seconds(result) / plain:.2f} | {step} |")
    ours = [result for result in results if result["tiers"]]
    print(f"medians of predicted / measured: process {statistics.median(map(process_ratio, ours)):.3f}, "
          f"step {statistics.median(map(step_ratio, ours)):.2f}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_job_arguments(parser)
    parser.add_argument("--peer-python", help="python of a venv with bench/peers/requirements.txt; none: Spillway alone")
    parser.add_argument("--peer-repeats", type=int, default=3)
    parser.add_argument("--modes", nargs="+", choices=list(MODES), help="some modes only; plain always runs")
    parser.add_argument("--no-auto", action="store_true", help="leave memory.plan: auto out")
    args = parser.parse_args()

    skipped = FULL_ONLY if args.job == "lora" else LORA_ONLY
    names = [name for name in MODES if name not in skipped and (not args.modes or name in args.modes or name == "plain")]
    fixed = {"plan": "fixed"}
    results = []

    def add(result):
        results.append(result)
        print(f"{result['name']}: {args.rows * args.tokens / seconds(result):.0f} tokens/s", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        rows = write_job_rows(args, folder)
        for name in names:
            add(train(args, name, MODES[name], fixed, rows, folder))
        peak = results[0]["tiers"]["device"]["planned_peak_bytes"]
        for share in [] if args.no_auto else SHARES:
            memory = {"plan": "auto", "device": int(peak * share), "disk": "16GiB"}
            add(train(args, f"auto, {100 * share:.0f} % of plain", {}, memory, rows, folder))
        for checkpointing in (False, True) if args.peer_python else ():
            add(min((train_peer(args, checkpointing, rows) for _ in range(args.peer_repeats)), key=seconds))
        add(train(args, "plain, again", {}, fixed, rows, folder))

    losses = {tuple(result["losses"]) for result in results if result["tiers"]}
    print(f"losses of all {sum(1 for r in results if r['tiers'])} runs of Spillway: "
          f"{'equal to the last bit' if len(losses) == 1 else 'DIFFERENT'}", file=sys.stderr)
    print_table(args, results)
    write_results(args, results)


if __name__ == "__main__":
    main()
