#!/usr/bin/env python3
"""Adds training of drawn layers (LISA) to tests/golden/models: what torch makes of the tiny models there.

    pip install torch transformers      # torch 2.15, transformers 5.24
    python tools/make_layer_draw_goldens.py tests/golden/models

Numbers are computed as tools/make_model_goldens.py computes them. As axolotl's callback has it, the weights of layers that
are not drawn do not require gradients: the optimizer, which holds all weights, passes over those without one, so that their
moments, their decay and their counts of steps stand still.

    NAME/golden_layer_draws.json    "draws": [{"first_step", "layers"}]; "curve" with the loss and the norm of gradients by
                                    step; "after": of each weight what golden_training.digest() keeps
"""

import argparse
from pathlib import Path

import torch
import transformers

from golden_batches import make_batches
from golden_model_folders import load
from golden_training import backward, compact, digest

STEPS, LEARNING_RATE, DECAY = 9, 1e-2, 0.1
# By model: the layers that are trained from a step on. A layer that is drawn again goes on with its old moments, and one
# of the third model's is never drawn.
DRAWS = {"llama2": {0: [0], 1: [1], 3: [0], 6: [1]},
         "qwen3_tied": {0: [0, 2], 1: [1, 2], 3: [0, 1], 6: [0, 2]},
         "gemma3": {0: [0], 1: [2], 3: [0], 6: [2]}}


def layer_draws(folder):
    model = load(folder)
    named = dict(model.named_parameters())
    before = {name: p.detach().clone() for name, p in named.items()}
    decayed = [p for name, p in named.items() if "norm" not in name]
    others = [p for name, p in named.items() if "norm" in name]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=LEARNING_RATE)
    curve = {"loss": [], "grad_norm": [], "learning_rate": LEARNING_RATE, "weight_decay": DECAY}
    for step, micro_batches in enumerate(make_batches()["train"][:STEPS]):
        if step in DRAWS[folder.name]:
            for number, layer in enumerate(model.model.layers):
                layer.requires_grad_(number in DRAWS[folder.name][step])
        optimizer.zero_grad(set_to_none=True)
        curve["loss"].append(backward(model, micro_batches))
        curve["grad_norm"].append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
    after = {name: digest(before[name], p.detach()) for name, p in named.items()}
    draws = [{"first_step": step, "layers": layers} for step, layers in DRAWS[folder.name].items()]
    return {"draws": draws, "curve": curve, "after": after}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in DRAWS:
        golden = layer_draws(out / name)
        (out / name / "golden_layer_draws.json").write_text(compact(golden))
        print(name, golden["curve"]["loss"])


if __name__ == "__main__":
    main()
