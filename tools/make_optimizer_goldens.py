#!/usr/bin/env python3
"""Writes tests/golden/optimizers/*.json: some steps of optimizers by the libraries that define them.

    pip install torch transformers lion-pytorch torchao bitsandbytes came-pytorch torch-optimi schedulefree
    tools/make_optimizer_goldens.py [GROUP...]
"""

import json
import operator
import os
import sys

import torch

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "optimizers")
RATE, STEPS = 0.0078125, 5


def record(name, make, states, options, shape=(100,)):
    """Weights before and behind STEPS steps with random gradients, and the states: by our names, where and how the
    library has them. `make(weights, lr)` returns its optimizer, `options` are ours."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(shape, generator=generator))
    result = {"optimizer": name, "options": options, "learning_rate": RATE, "shape": list(shape),
              "weight": weight.flatten().tolist(), "gradients": []}
    optimizer = make([weight], RATE)
    for _ in range(STEPS):
        weight.grad = torch.randn(shape, generator=generator)
        weight.grad.flatten()[:3] = 0  # where there is no sign
        result["gradients"].append(weight.grad.flatten().tolist())
        optimizer.step()
    result["weight_after"] = weight.flatten().tolist()
    result["states_after"] = {ours: get(optimizer.state[weight]).flatten().tolist() for ours, get in states.items()}
    return result


def record_in_f64(name, make, states, options, shape, steps=20):
    """The same over more steps and computed in f64, from weights and gradients that f32 has."""
    generator = torch.Generator().manual_seed(1)
    numbers = lambda: torch.randint(-127, 128, shape, generator=generator).double() / 128
    weight = torch.nn.Parameter(numbers())
    result = {"optimizer": name, "options": options, "learning_rate": RATE, "shape": list(shape),
              "weight": weight.flatten().tolist(), "gradients": []}
    optimizer = make([weight], RATE)
    for step in range(steps):
        weight.grad = numbers() * 2.0 ** -(step % 3)
        result["gradients"].append(weight.grad.flatten().tolist())
        optimizer.step()
    result["weight_after"] = weight.flatten().tolist()
    result["states_after"] = {ours: get(optimizer.state[weight]).flatten().tolist() for ours, get in states.items()}
    return result


def named(*names):
    return {name: operator.itemgetter(name) for name in names}


def matrix_cases():
    """Optimizers that look at a whole matrix."""
    import optimi
    from came_pytorch import CAME
    from transformers.optimization import Adafactor

    adafactor = {"clip_threshold": 0.9, "weight_decay": 0.1}

    def make_adafactor(weights, lr):
        return Adafactor(weights, lr=lr, scale_parameter=False, relative_step=False, **adafactor)

    rows_and_columns = named("exp_avg_sq_row", "exp_avg_sq_col")
    yield "adafactor", record_in_f64("adafactor", make_adafactor, rows_and_columns, adafactor, (18, 35))
    yield "adafactor_vector", record_in_f64("adafactor", make_adafactor, named("exp_avg_sq"), adafactor, (40,))

    came = {"clip_threshold": 0.9, "weight_decay": 0.1}
    betas = {"beta1": 0.9, "beta2": 0.99, "beta3": 0.999}

    def make_came(weights, lr):
        return CAME(weights, lr=lr, betas=tuple(betas.values()), **came)

    exp_avg, residuals = named("exp_avg"), named("exp_avg_res_row", "exp_avg_res_col")
    yield "came", record_in_f64("came", make_came, exp_avg | rows_and_columns | residuals, betas | came, (18, 35))
    yield "came_vector", record_in_f64("came", make_came, named("exp_avg", "exp_avg_sq"), betas | came, (40,))

    stable = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}

    def make_stable(weights, lr):
        return optimi.StableAdamW(weights, lr=lr, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1, foreach=False,
                                  triton=False)

    yield "stable_adamw", record_in_f64("stable_adamw", make_stable, named("exp_avg", "exp_avg_sq"), stable, (5, 35))

    muon = {"momentum": 0.9, "weight_decay": 0.1}
    for name, shape, match in (("muon_wide", (12, 20), 0), ("muon_tall", (20, 12), 0), ("muon_matched", (8, 16), 1)):
        def make_muon(weights, lr):
            return torch.optim.Muon(weights, lr=lr, adjust_lr_fn="match_rms_adamw" if match else None, **muon)

        # The library's products are in bf16: what they round is of the size of RATE / 256 in each step.
        options = muon | {"match_rms_adamw": match}
        yield name, record_in_f64("muon", make_muon, named("momentum_buffer"), options, shape) | {"tolerance": 0.01}


def element_cases():
    """Optimizers that treat each element alone."""
    import bitsandbytes
    from lion_pytorch import Lion

    lion = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}
    yield "lion", record("lion", lambda w, lr: Lion(w, lr=lr, betas=(0.9, 0.99), weight_decay=0.1), named("exp_avg"), lion)
    sgd = {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}
    yield "sgd", record("sgd", lambda w, lr: torch.optim.SGD(w, lr=lr, **sgd), named("momentum_buffer"), sgd)
    nesterov = {"momentum": 0.9, "weight_decay": 0.1}
    yield "sgd_nesterov", record("sgd", lambda w, lr: torch.optim.SGD(w, lr=lr, nesterov=True, **nesterov),
                                 named("momentum_buffer"), nesterov | {"nesterov": 1})
    rmsprop = {"alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1}
    yield "rmsprop", record("rmsprop", lambda w, lr: torch.optim.RMSprop(w, lr=lr, **rmsprop), named("square_avg"), rmsprop)
    centered = rmsprop | {"momentum": 0.9}
    yield "rmsprop_centered", record("rmsprop", lambda w, lr: torch.optim.RMSprop(w, lr=lr, centered=True, **centered),
                                     named("square_avg", "momentum_buffer", "grad_avg"), centered | {"centered": 1})
    adagrad = {"lr_decay": 0.1, "eps": 1e-6, "weight_decay": 0.1}
    yield "adagrad", record("adagrad", lambda w, lr: torch.optim.Adagrad(w, lr=lr, **adagrad), named("sum"), adagrad)
    ademamix = {"beta1": 0.9, "beta2": 0.99, "beta3": 0.999, "alpha": 5.0, "eps": 1e-6, "weight_decay": 0.1}
    ademamix_states = {"exp_avg": lambda state: state["state1"][0], "exp_avg_slow": lambda state: state["state1"][1],
                       "exp_avg_sq": operator.itemgetter("state2")}
    for name, schedules in (("ademamix", {}), ("ademamix_scheduled", {"t_alpha": 3, "t_beta3": 4})):
        def make_ademamix(w, lr):
            return bitsandbytes.optim.AdEMAMix(w, lr=lr, betas=(0.9, 0.99, 0.999), alpha=5.0, eps=1e-6, weight_decay=0.1,
                                               **schedules)

        yield name, record("ademamix", make_ademamix, ademamix_states, ademamix | schedules)


def record_torchao(optimizer_of, options):
    """The same with moments in codes, over as few elements as have them. Weights and gradients are integers times powers
    of two, which the test repeats."""
    from torchao.optim.adam import single_param_adam

    generator = torch.Generator().manual_seed(1)
    elements, steps = 4096, 3
    weight = torch.nn.Parameter(torch.randint(-999, 1000, (elements,), generator=generator) / 1024)
    scale = 2.0 ** -(3 * (torch.arange(elements) % 7))
    result = {"options": options, "weight": (weight * 1024).int().tolist(), "gradients": []}
    optimizer = optimizer_of([weight])
    moments = {"exp_avg": optimizer._new_buffer(weight, True), "exp_avg_sq": optimizer._new_buffer(weight, False)}
    for step in range(1, steps + 1):
        gradient = torch.randint(-999, 1000, (elements,), generator=generator)
        gradient[256:512] = 0  # a whole block
        result["gradients"].append(gradient.tolist())
        # The function that step() compiles.
        single_param_adam(weight.detach(), gradient / 1024 * scale, torch.tensor(float(step)), moments["exp_avg"],
                          moments["exp_avg_sq"], None, torch.tensor(options["learning_rate"]), options["beta1"],
                          options["beta2"], options["weight_decay"], options["eps"], True, False)
    result["weight_after"] = [float(f"{x:.8g}") for x in weight.tolist()]
    for name, moment in moments.items():
        result[name] = moment.codes.flatten().tolist()
        result[name + "_absmax"] = moment.scale.tolist()
    return result


def torchao_cases():
    from torchao.optim.adam import AdamW4bit, AdamW8bit

    options = {"learning_rate": RATE, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}
    options = options | {"eps": 2.0**-20}
    numbers = {"lr": options["learning_rate"], "betas": (options["beta1"], options["beta2"]), "eps": options["eps"],
               "weight_decay": options["weight_decay"], "block_size": 256}
    yield "adamw_torch_8bit", record_torchao(lambda weights: AdamW8bit(weights, **numbers), options)
    yield "adamw_torch_4bit", record_torchao(lambda weights: AdamW4bit(weights, **numbers), options)


def bf16_cases():
    """Weights and moments in bf16 without masters: torch's fused AdamW, which computes in f32 and rounds once. All that
    it leaves after each step, from which the test takes the next."""
    options = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}
    generator = torch.Generator().manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(200, generator=generator).bfloat16())
    result = {"options": options, "learning_rate": RATE, "weights": [weight.tolist()], "gradients": []}
    states = {"exp_avg": [[0.0] * 200], "exp_avg_sq": [[0.0] * 200]}
    optimizer = torch.optim.AdamW([weight], lr=RATE, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1, fused=True)
    for _ in range(20):
        weight.grad = torch.randn(200, generator=generator).bfloat16()
        result["gradients"].append(weight.grad.tolist())
        optimizer.step()
        result["weights"].append(weight.tolist())
        for name, steps in states.items():
            assert optimizer.state[weight][name].dtype == torch.bfloat16
            steps.append(optimizer.state[weight][name].tolist())
    yield "adamw_bf16", result | states


def schedule_free_cases():
    """Returns what is trained (y), how far z is from it, and what is evaluated (x). The library warms up by itself; a schedule
    changes the rate beside that, as transformers' Trainer has it."""
    import schedulefree

    shape, steps = (5, 19), 30
    base = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}
    cases = {"schedule_free_adamw": ({}, 0, lambda step: 1.0),
             "schedule_free_adamw_warmup": ({}, 6, lambda step: 1.0),
             "schedule_free_adamw_scheduled": ({"beta1": 0.95, "r": 0.5, "weight_lr_power": 1.0}, 4,
                                               lambda step: min(step / 8, 1.0) * (1 - step / 40))}
    for name, (changes, warmup, schedule) in cases.items():
        options = base | {"r": 0.0, "weight_lr_power": 2.0} | changes
        generator = torch.Generator().manual_seed(1)
        numbers = lambda: torch.randint(-127, 128, shape, generator=generator).double() / 128
        weight = torch.nn.Parameter(numbers())
        result = {"optimizer": "schedule_free_adamw", "options": options, "learning_rate": [], "shape": list(shape),
                  "weight": weight.flatten().tolist(), "gradients": []}
        optimizer = schedulefree.AdamWScheduleFree(
            [weight], lr=RATE, betas=(options["beta1"], options["beta2"]), eps=options["eps"],
            weight_decay=options["weight_decay"], warmup_steps=warmup, r=options["r"],
            weight_lr_power=options["weight_lr_power"], foreach=False)
        optimizer.train()
        for step in range(steps):
            weight.grad = numbers() * 2.0 ** -(step % 3)
            result["gradients"].append(weight.grad.flatten().tolist())
            optimizer.param_groups[0]["lr"] = RATE * schedule(step)
            optimizer.step()
            result["learning_rate"].append(optimizer.param_groups[0]["scheduled_lr"])
        state = optimizer.state[weight]
        result["weight_after"] = weight.flatten().tolist()
        result["states_after"] = {"z_minus_y": (state["z"] - weight).flatten().tolist(),
                                  "exp_avg_sq": state["exp_avg_sq"].flatten().tolist()}
        optimizer.eval()
        result["evaluated_after"] = weight.flatten().tolist()
        yield name, result


def main():
    """All groups of cases, or those named: element, torchao, matrix, bf16, schedule_free."""
    os.makedirs(FOLDER, exist_ok=True)
    groups = {"element": element_cases, "torchao": torchao_cases, "matrix": matrix_cases, "bf16": bf16_cases,
              "schedule_free": schedule_free_cases}
    for group in sys.argv[1:] or groups:
        for name, golden in groups[group]():
            with open(os.path.join(FOLDER, f"{name}.json"), "w", encoding="utf-8") as file:
                json.dump(golden, file)
                file.write("\n")


if __name__ == "__main__":
    main()
