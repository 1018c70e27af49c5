#!/usr/bin/env python3
"""Adds restarts of an adapter (ReLoRA) to tests/golden/models: what peft and torch make of the tiny model there.

    pip install torch transformers peft safetensors      # torch 2.15, transformers 5.24, peft 0.21
    python tools/make_restart_goldens.py tests/golden/models

Numbers are computed as tools/make_model_goldens.py computes them, of a model and an adapter that it has written.

    llama2/golden_restarts.json    "curve" as in golden.json, "restarts" the steps before which the adapter is merged by peft's
                                   get_delta_weight, and "merged" what merge_and_unload makes of base and adapter at the end
    llama2/golden_restarts.safetensors    "STEP.<factor>": what A begins as then; B is zero

At a restart the moments of AdamW stay that are larger than torch.quantile of their magnitudes, each tensor by itself. Gradients
of A are zero behind it, as B is, so that eps alone divides what stays of exp_avg where exp_avg_sq is gone: eps is large here, or
the curve would be chaotic.
"""

import argparse
from pathlib import Path

import make_model_goldens as models
import peft
import torch
import transformers
from golden_training import backward
from safetensors.torch import save_file

RESTARTS, RATIO, EPS, LEARNING_RATE = (7, 14), 0.75, 1e-3, 1e-2


def adapted_layers(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, peft.tuners.lora.LoraLayer)}


@torch.no_grad()
def merge(model, generator):
    """Merges, begins anew, and returns what A begins as."""
    begins = {}
    for name, layer in adapted_layers(model).items():
        layer.get_base_layer().weight += layer.get_delta_weight("default")
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        a.copy_((2 * torch.rand(a.shape, generator=generator) - 1) / a.shape[1] ** 0.5)
        b.zero_()
        begins[f"{name}.lora_A.weight"] = a.clone()
    return begins


@torch.no_grad()
def prune(optimizer):
    for state in optimizer.state.values():
        for key in ("exp_avg", "exp_avg_sq"):
            magnitudes = state[key].abs()
            state[key][magnitudes <= torch.quantile(magnitudes.flatten(), RATIO)] = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    folder = parser.parse_args().out / "llama2"
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = peft.PeftModel.from_pretrained(models.load(folder), folder / "adapter", is_trainable=True).eval()
    parameters = models.trainable(model)
    optimizer = torch.optim.AdamW(parameters.values(), lr=LEARNING_RATE, eps=EPS, weight_decay=0.01)
    generator, begins = torch.Generator().manual_seed(5), {}
    curve = {"loss": [], "grad_norm": [], "learning_rate": LEARNING_RATE, "eps": EPS, "ratio": RATIO}
    for step, micro_batches in enumerate(models.make_batches()["train"]):
        if step in RESTARTS:
            begins |= {f"{step}.{name}": a for name, a in merge(model, generator).items()}
            prune(optimizer)
        optimizer.zero_grad()
        curve["loss"].append(backward(model, micro_batches))
        curve["grad_norm"].append(torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0).item())
        optimizer.step()
    merged = {n: models.digest(torch.zeros(()), t) for n, t in model.merge_and_unload().state_dict().items()}
    (folder / "golden_restarts.json").write_text(models.compact({"restarts": RESTARTS, "curve": curve, "merged": merged}))
    save_file(begins, folder / "golden_restarts.safetensors")
    print(curve["loss"])


if __name__ == "__main__":
    main()
