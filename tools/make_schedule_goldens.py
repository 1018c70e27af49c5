#!/usr/bin/env python3
"""Writes tests/golden/schedules.json: learning rates of every step by transformers, torch, axolotl, FastVideo and DeepSpeed.

    pip install transformers==5.24.0 torch==2.15.0 numpy
    pip download axolotl==0.21.0 --no-deps --ignore-requires-python && unzip axolotl-*.whl -d axolotl_wheel
    pip download fastvideo==0.2.1 --no-deps --ignore-requires-python && unzip fastvideo-*.whl -d fastvideo_wheel
    pip download deepspeed==0.19.8 --no-deps --no-binary :all: && tar xzf deepspeed-0.19.8.tar.gz
    tools/make_schedule_goldens.py axolotl_wheel fastvideo_wheel deepspeed-0.19.8

Each case names one of our schedules with its options; rates[i] is what the library's optimizer has in the step with i
steps before it; `restarts` are those of axolotl's jagged wrapper around the schedule. transformers' are made by its get_scheduler(), one_cycle as axolotl calls torch's OneCycleLR, and the
others by axolotl's own module, which is read from its wheel. Of FastVideo's, which needs the whole program, one function
is taken out of its file.
"""

import ast
import importlib.metadata
import importlib.util
import json
import math
import pathlib
import logging
import sys
import types
import warnings

import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "schedules.json"
SPANS = [(2e-4, 0, 1), (2e-4, 0, 7), (1e-3, 4, 20), (3e-5, 10, 50), (0.5, 20, 20), (1.0, 5, 3)]
TRANSFORMERS = [
    ("constant", {}), ("constant_with_warmup", {}), ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.5}),
    ("cosine_with_restarts", {}), ("cosine_with_restarts", {"num_cycles": 3}),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1}), ("cosine_with_min_lr", {"min_lr": 1e-6, "num_cycles": 0.25}),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-6, "warmup_lr_rate": 0.2}),
    ("polynomial", {}), ("polynomial", {"lr_end": 1e-6, "power": 2.0}),
    ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 3}),
    ("warmup_stable_decay", {"num_decay_steps": 5}),
    ("warmup_stable_decay", {"num_decay_steps": 5, "num_stable_steps": 4, "min_lr_ratio": 0.2}),
    ("warmup_stable_decay", {"num_decay_steps": 8, "warmup_type": "cosine", "decay_type": "linear"}),
    ("warmup_stable_decay", {"num_decay_steps": 8, "warmup_type": "1-sqrt", "decay_type": "1-sqrt", "min_lr_ratio": 0.1}),
]
RESTARTS = [(10, 3, 2, 0.001), (7, 10, 1, 0.1), (4, 2, 4, 0.001), (100, 10, 1, 0.001)]
ONE_CYCLE = [{}, {"pct_start": 0.3}, {"anneal_strategy": "linear", "div_factor": 10.0, "final_div_factor": 100.0},
             {"pct_start": 0.4, "three_phase": True}]


def optimizer_of(peak):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)


def rates_of(make, peak, total):
    """None where the library refuses, or divides by zero before the last step."""
    optimizer = optimizer_of(peak)
    rates = []
    try:
        schedule = make(optimizer)
        for step in range(total):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if step + 1 < total:
                schedule.step()
    except (ValueError, ZeroDivisionError):
        return None
    return rates


def axolotls(module, warmup, total):
    yield "rex", {}, lambda o: module.RexLR(o, o.param_groups[0]["lr"], 0, total, warmup)
    yield "rex", {"min_lr_rate": 0.1}, lambda o: module.RexLR(o, o.param_groups[0]["lr"], o.param_groups[0]["lr"] * 0.1,
                                                              total, warmup)
    yield "cosine_quadratic_warmup", {}, lambda o: module.get_cosine_schedule_with_quadratic_warmup(o, warmup, total)
    yield "cosine_with_min_lr", {"min_lr_rate": 0.3}, lambda o: module.get_cosine_schedule_with_min_lr(o, warmup, total, 0.3)
    yield ("cosine_then_constant", {"min_lr_rate": 0.1, "constant_ratio": 0.8},
           lambda o: module.get_cosine_schedule_with_warmup_decay_constant(o, warmup, total, 0.8, 0.1))


def fastvideos(wheel):
    """Its get_cosine_schedule_with_min_lr."""
    path = wheel / "fastvideo" / "training" / "training_utils.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {"math": math, "Optimizer": torch.optim.Optimizer, "LambdaLR": torch.optim.lr_scheduler.LambdaLR}
    function = next(one for one in tree.body if getattr(one, "name", "") == "get_cosine_schedule_with_min_lr")
    exec(compile(ast.Module([function], []), str(path), "exec"), names)  # pylint: disable=exec-used
    return names[function.name]


def deepspeeds(folder):
    """Its module of schedules, which needs of the package a logger alone."""
    for name in ("deepspeed", "deepspeed.utils"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["deepspeed.utils"].logger = logging.getLogger("deepspeed")
    logging.disable(logging.WARNING)
    spec = importlib.util.spec_from_file_location("lr_schedules", folder / "deepspeed" / "runtime" / "lr_schedules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("deepspeed", "deepspeed.utils"):
        del sys.modules[name]  # transformers would take it for the package
    return module


def of_deepspeed(module, peak, warmup, total):
    for options in ({}, {"warmup_type": "linear"}):
        rates = {"warmup_max_lr": peak, "warmup_num_steps": warmup}
        yield "WarmupLR", options, lambda o, k=options: module.WarmupLR(o, **rates, **k)
        for end in ({}, {"total_num_steps": 16}):
            yield ("WarmupDecayLR", {**options, **end},
                   lambda o, k=options, e=end: module.WarmupDecayLR(o, e.get("total_num_steps", total), **rates, **k))
        for ratios in ({}, {"cos_min_ratio": 0.1, "warmup_min_ratio": 0.2}):
            yield ("WarmupCosineLR", {**options, **ratios},
                   lambda o, k=options, r=ratios: module.WarmupCosineLR(o, total, warmup_num_steps=warmup, **k, **r))


def version_of(wheel, name):
    return next(wheel.glob(f"{name}-*.dist-info")).name.split("-")[1].removesuffix(".dist")


def cases(module, fastvideo, deepspeed):
    for peak, warmup, total in SPANS:
        for name, options, make in of_deepspeed(deepspeed, peak, warmup, total):
            yield name, options, peak, warmup, total, make
        for name, options in TRANSFORMERS:
            yield name, options, peak, warmup, total, lambda o, n=name, k=options: transformers.get_scheduler(
                n, o, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=k)
        for options in ONE_CYCLE:
            given = {"pct_start": min(1.0, warmup / total), **options}
            yield "one_cycle", options, peak, warmup, total, lambda o, k=given: torch.optim.lr_scheduler.OneCycleLR(
                o, max_lr=peak, total_steps=total, cycle_momentum=False, **k)
        for name, options, make in axolotls(module, warmup, total):
            yield name, options, peak, warmup, total, make
        for ratio in (0.0, 0.5):
            yield ("cosine_with_floor", {"min_lr_rate": ratio}, peak, warmup, total,
                   lambda o, r=ratio: fastvideo(o, warmup, total, r))


def restarted(module, warmup, total, restarts):
    """Axolotl's wrapper around schedules of transformers, and around its own rex."""
    names = [("constant", {}), ("linear", {}), ("cosine", {}), ("polynomial", {}), ("cosine_with_min_lr", {"min_lr_rate": 0.1})]
    makers = [(name, options, lambda o, n=name, k=options: transformers.get_scheduler(
        n, o, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=k)) for name, options in names]
    makers.append(("rex", {}, lambda o: module.RexLR(o, o.param_groups[0]["lr"], 0, total, warmup)))
    for name, options, make in makers:
        yield name, options, lambda o, m=make: module.JaggedLRRestartScheduler(o, m(o), *restarts)


def main():
    warnings.simplefilter("ignore")
    wheel, fastvideo_wheel = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    spec = importlib.util.spec_from_file_location("schedulers", wheel / "axolotl" / "utils" / "schedulers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    golden = {"versions": {name: importlib.metadata.version(name) for name in ("transformers", "torch")}, "cases": []}
    golden["versions"]["axolotl"] = version_of(wheel, "axolotl")
    golden["versions"]["fastvideo"] = version_of(fastvideo_wheel, "fastvideo")
    golden["versions"]["deepspeed"] = pathlib.Path(sys.argv[3]).name.removeprefix("deepspeed-")
    for name, options, peak, warmup, total, make in cases(module, fastvideos(fastvideo_wheel), deepspeeds(pathlib.Path(sys.argv[3]))):
        rates = rates_of(make, peak, total)
        if rates is not None:
            golden["cases"].append({"schedule": name, "options": options, "peak": peak, "warmup_steps": warmup,
                                    "total_steps": total, "rates": rates})
    for restarts in RESTARTS:
        names = dict(zip(("steps", "warmup_steps", "anneal_steps", "least"), restarts))
        for name, options, make in restarted(module, 4, 30, restarts):
            golden["cases"].append({"schedule": name, "options": options, "peak": 1e-3, "warmup_steps": 4, "total_steps": 30,
                                    "restarts": names, "rates": rates_of(make, 1e-3, 30)})
    lines = ",\n".join(json.dumps(case) for case in golden["cases"])
    GOLDEN.write_text(f'{{"versions": {json.dumps(golden["versions"])},\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
