#!/usr/bin/env python3
"""Writes tests/golden/optimizers/*.json: some steps of optimizers by the libraries that define them.

    pip install torch lion-pytorch torchao && tools/make_optimizer_goldens.py
"""

import json
import os

import torch
from lion_pytorch import Lion
from torchao.optim.adam import AdamW4bit, AdamW8bit, single_param_adam

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "optimizers")
ELEMENTS, STEPS = 100, 5


def record(optimizer_of, states, options):
    """Returns the weights before and behind STEPS steps with random gradients, and the named states."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(ELEMENTS, generator=generator))
    result = {"options": options, "weight": weight.tolist(), "gradients": []}
    optimizer = optimizer_of([weight])
    for _ in range(STEPS):
        weight.grad = torch.randn(ELEMENTS, generator=generator)
        weight.grad[:3] = 0  # where there is no sign
        result["gradients"].append(weight.grad.tolist())
        optimizer.step()
    result["weight_after"] = weight.tolist()
    result["states_after"] = {name: optimizer.state[weight][name].tolist() for name in states}
    return result


def record_torchao(optimizer_of, options):
    """The same with moments in codes, over as few elements as have them. Weights and gradients are integers times powers
    of two, which the test repeats."""
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
        # What step() compiles.
        single_param_adam(weight.detach(), gradient / 1024 * scale, torch.tensor(float(step)), moments["exp_avg"],
                          moments["exp_avg_sq"], None, torch.tensor(options["learning_rate"]), options["beta1"],
                          options["beta2"], options["weight_decay"], options["eps"], True, False)
    result["weight_after"] = [float(f"{x:.8g}") for x in weight.tolist()]
    for name, moment in moments.items():
        result[name] = moment.codes.flatten().tolist()
        result[name + "_absmax"] = moment.scale.tolist()
    return result


def main():
    os.makedirs(FOLDER, exist_ok=True)
    options = {"learning_rate": 0.0078125, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}
    goldens = {
        "lion": record(lambda weights: Lion(weights, lr=options["learning_rate"], betas=(options["beta1"], options["beta2"]),
                                            weight_decay=options["weight_decay"]), ["exp_avg"], options),
    }
    options = options | {"eps": 2.0**-20}
    numbers = {"lr": options["learning_rate"], "betas": (options["beta1"], options["beta2"]), "eps": options["eps"],
               "weight_decay": options["weight_decay"], "block_size": 256}
    goldens["adamw_torch_8bit"] = record_torchao(lambda weights: AdamW8bit(weights, **numbers), options)
    goldens["adamw_torch_4bit"] = record_torchao(lambda weights: AdamW4bit(weights, **numbers), options)
    for name, golden in goldens.items():
        with open(os.path.join(FOLDER, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(golden, file)
            file.write("\n")


if __name__ == "__main__":
    main()
