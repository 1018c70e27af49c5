#!/usr/bin/env python3
"""Fine-tuning on a GPU: tokens per second, share of the matrix peak, memory and lanes, in each mode and beside PyTorch.

    bench/run_gpu.py --models ~/models --peer-python ~/peers/bin/python --out bench/results/gpu-h200

Needs numpy. Each job is a shape with random weights, made below --models where they are not there yet. It runs in its modes, then with
`memory.plan: auto` under shares of the plain run's device peak, then, with --peer-python, in transformers + PEFT with and without
gradient checkpointing. A run's speed is that of its median step, the first two left out. --out.json holds every raw number and --out.md
the results as a page; both are written after each run, so that a run cut short leaves what it measured, and --resume
goes on from there, with the same commit. Without a GPU, `--device cpu --spillway build/release/bin/spillway --jobs tiny-lora tiny-full`
shows that all of this works.
"""

import argparse
import json
import os
import sys
import tempfile

from run_modes import MODES, add_machine_arguments, mib, seconds, train, write_job_rows
from run_sft import ROOT, cpu_name, find_commit, run

LORA_MODES = ["plain", "checkpointing", "activations -> host", "activations -> disk", "checkpointing, boundaries -> host",
              "checkpointing, boundaries -> disk", "layers on host", "layers on disk"]
FULL_MODES = LORA_MODES[:6] + ["layers on host"]
# In full fine-tuning the weights of a layer are trained; they and their gradients live elsewhere together.
FULL_LAYERS = {"parameter_offload": "host", "gradient_offload": "host"}
STATE_ON_HOST = {"optimizer_offload": "host"}
# Both programs quantise the weights as they load them.
NF4 = {"adapter": "qlora", "load_in_4bit": True}
SHARES = (1.0, 0.5, 0.25)
LORA_RANK = 16

# Five rows of 2,048 tokens are what a link of 55 GB/s needs to bring an 8B model's layers while the layers before compute.
JOBS = {
    "llama-3-8b-lora": {"shape": "llama-3-8b", "job": "lora", "rows": 5, "tokens": 2048, "keys": {}},
    "llama-3-8b-qlora": {"shape": "llama-3-8b", "job": "lora", "rows": 5, "tokens": 2048, "keys": NF4, "peer_base": "nf4"},
    "qwen3-8b-lora": {"shape": "qwen3-8b", "job": "lora", "rows": 5, "tokens": 2048, "keys": {}},
    "qwen2.5-1.5b-full-resident": {"shape": "qwen2.5-1.5b", "job": "full", "rows": 5, "tokens": 2048, "keys": {}},
    "qwen2.5-1.5b-full": {"shape": "qwen2.5-1.5b", "job": "full", "rows": 5, "tokens": 2048, "keys": STATE_ON_HOST},
    "qwen2.5-7b-full": {"shape": "qwen2.5-7b", "job": "full", "rows": 5, "tokens": 2048, "keys": STATE_ON_HOST},
    "smollm2-lora": {"shape": "smollm2-135m", "job": "lora", "rows": 8, "tokens": 2048, "keys": {}},
    "smollm2-full": {"shape": "smollm2-135m", "job": "full", "rows": 8, "tokens": 2048, "keys": {}},
    "tiny-lora": {"shape": "tiny", "job": "lora", "rows": 2, "tokens": 64, "keys": {}},
    "tiny-full": {"shape": "tiny", "job": "full", "rows": 2, "tokens": 64, "keys": STATE_ON_HOST},
}

FORMULA = """Model flops per token: 2 per parameter of every product of the forward pass, the head included and the embedding's look-up not;
the same again for the gradient of its input, and, where it is trained, of its weight: 4 a frozen and 6 a trained
parameter. Causal attention over rows of L tokens: 6 (L + 1) a layer, head and unit of its width. Nothing that is computed a second
time counts. Their rate, divided by the fastest bf16 product that `spillway doctor` measured in the same run, is the `share of the
peak`. `busy` is the share of the steps' time in which a lane had work; `libraries` is device memory beside the arena."""


def model_flops_per_token(config, job, tokens):
    """FORMULA, in code."""
    hidden, middle, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    head_size = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * head_size, config["num_key_value_heads"] * head_size
    products = [(hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden),
                (hidden, middle), (hidden, middle), (middle, hidden)]
    head = hidden * config["vocab_size"]
    base = layers * sum(inputs * outputs for inputs, outputs in products)
    factors = layers * sum(LORA_RANK * (inputs + outputs) for inputs, outputs in products)
    attention = 6 * (tokens + 1) * layers * queries
    return attention + (6 * (base + head) if job == "full" else 4 * (base + head) + 6 * factors)


class Benchmark:
    """All jobs' results so far, in the file --out.json."""

    def __init__(self, args):
        self.args = args
        self.commit = find_commit()
        self.jobs = {}
        if args.resume and os.path.exists(args.out + ".json"):
            self.go_on_from(args.out + ".json")
            return
        output, _ = run([args.spillway, "doctor", "--json", "--device", args.device], args.threads)
        self.doctor = json.loads(output)

    def go_on_from(self, path):
        """Takes over what succeeded before; what failed is run again."""
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        if before["commit"] != self.commit:
            sys.exit(f"{path}: expected results of commit {self.commit[:12]}, got those of {before['commit'][:12]}; "
                     "check that commit out, or name another --out")
        self.doctor = before["doctor"]
        for job, results in before["jobs"].items():
            self.jobs[job] = [result for result in results if "failure" not in result]

    def matrix_peak(self):
        return max(rate["flops_per_second"] for rate in self.doctor["compute"] if rate["dtype"] == "bf16" and rate["used"])

    def add(self, job, name, measure):
        """measure()'s result under `name`, unless an earlier run has one. A program that fails says so in its place."""
        results = self.jobs.setdefault(job, [])
        if any(result["name"] == name for result in results):
            return
        try:
            result = measure()
        except SystemExit as failure:  # run() ends so, with the program's last words
            lines = [line for line in str(failure).splitlines() if line.strip()]
            result = {"failure": lines[-1] if lines else "no output"}
        results.append(result | {"name": name})
        print(f"{job}, {name}: {result.get('failure') or f'{self.speed(job, result):.0f} tokens/s'}", file=sys.stderr, flush=True)
        self.write()

    def speed(self, job, result):
        return JOBS[job]["rows"] * JOBS[job]["tokens"] / seconds(result)

    def write(self):
        with open(self.args.out + ".json", "w", encoding="utf-8") as file:
            json.dump({"command": sys.argv, "commit": self.commit, "cpu": cpu_name(), "doctor": self.doctor, "jobs": self.jobs},
                      file, indent=1)
        with open(self.args.out + ".md", "w", encoding="utf-8") as file:
            file.write(self.page())

    def page(self):
        machine = self.doctor["machine"]
        lines = [f"# Fine-tuning on {machine['name'] if machine.get('device') == 'cuda' else cpu_name()}", "",
                 "    " + " ".join(["bench/run_gpu.py", *sys.argv[1:]]), "",
                 f"Commit {self.commit[:12]}. {cpu_name()}, {machine['threads']} threads. Fastest bf16 product: "
                 f"{self.matrix_peak() / 1e12:.2f} TFLOP/s.", "", FORMULA]
        for job, results in self.jobs.items():
            kind = "LoRA r=16, all linear layers" if JOBS[job]["job"] == "lora" else "full fine-tuning"
            keys = "".join(f", `{key}: {value}`" for key, value in JOBS[job]["keys"].items())
            lines += ["", f"## {JOBS[job]['shape']}, {kind}", "",
                      f"{JOBS[job]['rows']} rows of {JOBS[job]['tokens']} tokens per step, packed, bf16{keys}.", ""]
            lines += [*self.table(job, results), "", self.agreement(results)]
        return "\n".join(lines) + "\n"

    @staticmethod
    def agreement(results):
        losses = [tuple(result["losses"]) for result in results if result.get("tiers")]
        if len(losses) < 2:
            return ""
        equal = "equal to the last bit" if len(set(losses)) == 1 else "DIFFERENT"
        return f"The losses of the {len(losses)} runs of Spillway are {equal}."

    def table(self, job, results):
        yield ("| run | tokens/s | share of the peak | time / plain | predicted / measured | device MiB, planned | measured "
               "| libraries | host MiB | disk MiB | busy |")
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
        plain = next((seconds(result) for result in results if result["name"] == "plain" and "failure" not in result), None)
        for result in results:
            if "failure" in result:
                yield f"| {result['name']} | {result['failure'].replace('|', '/')} |" + 9 * " |"
            else:
                yield f"| {result['name']} | " + " | ".join(self.cells(job, result, plain)) + " |"

    def cells(self, job, result, plain):
        speed = self.speed(job, result)
        yield f"{speed:.0f}"
        yield f"{100 * speed * result['model_flops_per_token'] / self.matrix_peak():.1f} %"
        yield f"{seconds(result) / plain:.3f}" if plain else ""
        tiers = result.get("tiers")
        if not tiers:
            yield from ["", "", mib(result["device_peak_bytes"]) if result["device_peak_bytes"] else "", "", "", "", ""]
            return
        yield f"{result['step']['predicted_seconds'] / seconds(result):.2f}"
        yield mib(tiers["device"]["planned_peak_bytes"])
        yield mib(tiers["device"]["measured_peak_bytes"])
        yield mib(result["process"]["device_library_bytes"])
        yield mib(tiers["host"]["measured_peak_bytes"])
        yield mib(tiers["disk"]["measured_peak_bytes"])
        total = sum(result["step_seconds"])
        busy = {lane: use["busy_seconds"] / total for lane, use in result["lanes"].items()}
        yield ", ".join(f"{lane} {100 * share:.0f} %" for lane, share in busy.items() if share > 0)


def make_model(args, shape):
    folder = os.path.join(args.models, shape)
    if not os.path.exists(os.path.join(folder, "model.safetensors.index.json")):
        run([sys.executable, os.path.join(ROOT, "tools", "make_random_model.py"), shape, folder], args.threads)
    return folder


def train_peer(args, base, checkpointing, rows):
    command = [args.peer_python, os.path.join(ROOT, "bench", "peers", "torch_sft.py"), args.model, rows, "--job", args.job,
               "--base", base, "--device", "cpu" if args.device == "cpu" else "cuda", "--steps", str(args.steps),
               "--rows-per-step", str(args.rows), "--threads", str(args.threads)]
    output, rss = run(command + (["--gradient-checkpointing"] if checkpointing else []), args.threads)
    return json.loads(output.splitlines()[-1]) | {"peak_rss_bytes": rss}


def run_job(benchmark, name, folder):
    job = JOBS[name]
    args = argparse.Namespace(**vars(benchmark.args), model=make_model(benchmark.args, job["shape"]),
                              **{key: job[key] for key in ("job", "rows", "tokens")})
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        flops = {"model_flops_per_token": model_flops_per_token(json.load(file), job["job"], job["tokens"])}
    rows = write_job_rows(args, folder)

    def add(mode, keys, memory):
        keys = job["keys"] | {"sample_packing": True} | keys
        benchmark.add(name, mode, lambda: train(args, mode, keys, memory, rows, folder) | flops)

    for mode in LORA_MODES if job["job"] == "lora" else FULL_MODES:
        if args.modes and mode not in args.modes and mode != "plain":
            continue
        is_full_layers = job["job"] == "full" and mode == "layers on host"
        add(mode, FULL_LAYERS if is_full_layers else MODES[mode], {"plan": "fixed"})
    plain = next(result for result in benchmark.jobs[name] if result["name"] == "plain")
    if "failure" not in plain and not args.no_auto:
        peak = plain["tiers"]["device"]["planned_peak_bytes"]
        for share in SHARES:
            add(f"auto, {100 * share:.0f} % of plain", {}, {"plan": "auto", "device": int(peak * share)})
    for checkpointing in (False, True) if args.peer_python else ():
        peer = "transformers + PEFT" + (", checkpointing" if checkpointing else "")
        benchmark.add(name, peer, lambda: train_peer(args, job.get("peer_base", "dense"), checkpointing, rows) | flops)
    add("plain, again", {}, {"plan": "fixed"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="models", help="folder of the shapes' model folders")
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=[name for name in JOBS if not name.startswith("tiny")])
    parser.add_argument("--modes", nargs="+", choices=LORA_MODES, help="some modes only; plain always runs")
    parser.add_argument("--no-auto", action="store_true", help="leave memory.plan: auto out")
    parser.add_argument("--peer-python", help="python of a venv with bench/peers/requirements.txt; none: Spillway alone")
    parser.add_argument("--out", required=True, help="path of the results, without .json and .md")
    parser.add_argument("--resume", action="store_true", help="keep the results that --out.json has, but for failures")
    add_machine_arguments(parser)
    parser.set_defaults(spillway=os.path.join(ROOT, "build", "cuda", "bin", "spillway"), device="cuda")
    args = parser.parse_args()
    if args.scratch:
        os.makedirs(args.scratch, exist_ok=True)

    benchmark = Benchmark(args)
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        for name in args.jobs:
            run_job(benchmark, name, folder)
    print(benchmark.page())


if __name__ == "__main__":
    main()
