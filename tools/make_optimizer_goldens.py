#!/usr/bin/env python3
"""Writes tests/golden/optimizers/*.json: some steps of optimizers by the libraries that define them.

    pip install torch lion-pytorch && tools/make_optimizer_goldens.py
"""

import json
import os

import torch
from lion_pytorch import Lion

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


def main():
    os.makedirs(FOLDER, exist_ok=True)
    options = {"learning_rate": 0.0078125, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1}
    goldens = {
        "lion": record(lambda weights: Lion(weights, lr=options["learning_rate"], betas=(options["beta1"], options["beta2"]),
                                            weight_decay=options["weight_decay"]), ["exp_avg"], options),
    }
    for name, golden in goldens.items():
        with open(os.path.join(FOLDER, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump(golden, file)
            file.write("\n")


if __name__ == "__main__":
    main()
