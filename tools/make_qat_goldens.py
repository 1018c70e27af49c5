#!/usr/bin/env python3
"""Writes tests/golden/qat: what torchao's fake quantisers make of some numbers, and of a tiny model in five steps.

    pip install -r bench/peers/requirements.txt torchao==0.18.0      # made with transformers 5.24, torch 2.15
    python tools/make_qat_goldens.py tests/golden/qat

    formats.json                 per format: x, rounded to it, and its gradient for a given one of the result
    cases/NAME/config.yml        axolotl's qat as a config; the model is that of tests/golden/preference_training, and
                                 rows are those of tests/golden/distillation
    cases/NAME/expected.json     loss and gradient norm of each step, by transformers' Trainer
    cases/NAME/final.safetensors the trained tensors after the last step

Layers of int4 and fp8 are torchao's own, put in as axolotl does it (axolotl/utils/quantization.py). Those of nvfp4 run
on Blackwell alone in torchao: here their weights and inputs go through NVFP4Tensor and back, and gradients pass.
Two things are put right on the way, as they hide what torchao means: torch 2.15 passes no gradient at the bounds of a
clamp (up to 2.11, which axolotl runs on, it does, and the extremes of a group are at its bounds), and torchao's cast to
fp8 casts gradients to fp8, too, where they vanish. Everything runs on the CPU in f32, with one thread.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TQDM_DISABLE="1")

import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from torchao.prototype.mx_formats.mx_tensor import MXTensor, ScaleCalculationMode
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.quantization import quant_primitives, quantize_
from torchao.quantization.qat import QATConfig
from torchao.quantization.qat.fake_quantize_config import (
    Float8FakeQuantizeConfig,
    Int4WeightFakeQuantizeConfig,
    IntxFakeQuantizeConfig,
)
from torchao.quantization.qat.fake_quantizer import FakeQuantizerBase

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "golden"
STEPS, ACCUMULATION, GROUP, RATE = 5, 2, 16, 1e-3
# A last bit soon changes a code where there are two roundings, and with it a step.
FEWER_STEPS = {"int4_of_fp8": 3}
INT8 = IntxFakeQuantizeConfig(dtype=torch.int8, granularity="per_token", is_symmetric=False)
FLOAT8 = Float8FakeQuantizeConfig(dtype=torch.float8_e4m3fn)
INT4 = Int4WeightFakeQuantizeConfig(group_size=GROUP, activation_dtype=torch.bfloat16)
INT4_OF_FLOAT8 = Int4WeightFakeQuantizeConfig(group_size=GROUP, activation_dtype=torch.float8_e4m3fn)


def passing(dequantised):
    """Rounds by `dequantised`; gradients pass."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, x):
            return dequantised(x.detach())

        @staticmethod
        def backward(_ctx, gradient):
            return gradient

    return Function.apply


class Clamp(torch.autograd.Function):
    """Passes gradients at the bounds, too."""

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward((x >= low) & (x <= high))
        return torch.minimum(torch.maximum(x, torch.tensor(float(low))), torch.tensor(float(high)))

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None, None


def put_torch_right():
    clamp = torch.clamp

    def inclusive(x, min=None, max=None):  # noqa: A002
        both = isinstance(min, (int, float)) and isinstance(max, (int, float))
        return Clamp.apply(x, min, max) if both and x.requires_grad else clamp(x, min=min, max=max)

    torch.clamp = torch.Tensor.clamp = inclusive
    quant_primitives._RoundToFloat8.forward = staticmethod(lambda _ctx, x, dtype: x.to(dtype).to(x.dtype))


def through_mxfp4(x):
    return MXTensor.to_mx(x, torch.float4_e2m1fn_x2, 32, ScaleCalculationMode.RCEIL).dequantize(x.dtype)


def through_nvfp4(x):
    scale = per_tensor_amax_to_scale(x.abs().max())
    return NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale).dequantize(x.dtype)


FORMATS = {"int4": FakeQuantizerBase.from_config(INT4), "int4_of_float8": FakeQuantizerBase.from_config(INT4_OF_FLOAT8),
           "int8": FakeQuantizerBase.from_config(INT8), "float8": FakeQuantizerBase.from_config(FLOAT8),
           "mxfp4": passing(through_mxfp4), "nvfp4": passing(through_nvfp4)}


def write_formats(file):
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(3, 64, generator=generator) * torch.tensor([[0.05], [1.0], [30.0]])
    start[0, 4] = start[0, 9] = start[0].max() * 1.5  # two that are the largest of their group and row
    start[1, 48:64] = 0.25  # a group without a range
    # Points half way between two codes, exact in f32.
    start[2, 32:48] = torch.tensor([6.0, -6.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.25, -0.75, -2.5, -5.0, 0.0, 4.5, 1.0])
    gradient = torch.randn(3, 64, generator=generator)
    formats = {}
    for name, quantiser in FORMATS.items():
        x = start.clone().requires_grad_(True)
        out = quantiser(x)
        out.backward(gradient)
        formats[name] = {"out": out.detach().flatten().tolist(), "dx": x.grad.flatten().tolist()}
    file.write_text(json.dumps({"shape": [3, 64], "group": GROUP, "x": start.flatten().tolist(), "dy": gradient.flatten().tolist(),
                                "formats": formats}) + "\n")


class Nvfp4Linear(torch.nn.Linear):
    def forward(self, x):
        return torch.nn.functional.linear(FORMATS["nvfp4"](x.reshape(-1, x.shape[-1])).view(x.shape), FORMATS["nvfp4"](self.weight), self.bias)


def put_in(model, qat):
    """Does what axolotl's prepare_model_for_qat does, but int4 without fp8 is that of torchao's Int4WeightOnlyConfig."""
    if qat["weight_dtype"] == "nvfp4":
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.__class__ = Nvfp4Linear
        return
    inputs = {None: None, "int8": INT8, "fp8": FLOAT8}[qat.get("activation_dtype")]
    weights = FLOAT8 if qat["weight_dtype"] == "fp8" else INT4_OF_FLOAT8 if inputs is FLOAT8 else INT4
    quantize_(model, QATConfig(weight_config=weights, activation_config=inputs))
    if qat.get("quantize_embedding"):
        quantize_(model, QATConfig(weight_config=INT4), filter_fn=lambda module, _: isinstance(module, torch.nn.Embedding))


CASES = {"int4": {"weight_dtype": "int4", "activation_dtype": "int8", "group_size": GROUP},
         "int4_late": {"weight_dtype": "int4", "activation_dtype": "int8", "group_size": GROUP, "fake_quant_after_n_steps": 2},
         "int4_of_fp8": {"weight_dtype": "int4", "activation_dtype": "fp8", "group_size": GROUP},
         "fp8": {"weight_dtype": "fp8", "activation_dtype": "fp8"},
         "nvfp4": {"weight_dtype": "nvfp4", "activation_dtype": "nvfp4"}}
# nvfp4 has one scale for all inputs of a layer: with several rows those of padding would count.
ROWS = {"nvfp4": 1}


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    padded = {"input_ids": 0, "labels": -100}
    batch = {name: torch.tensor([row[name] + [fill] * (longest - len(row[name])) for row in rows]) for name, fill in padded.items()}
    batch["attention_mask"] = torch.tensor([[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows])
    return batch


class Late(transformers.TrainerCallback):
    def __init__(self, after):
        self.after = after

    def on_step_begin(self, _args, state, _control, model=None, **_):
        for module in model.modules():
            for quantiser in (getattr(module, "weight_fake_quantizer", None), getattr(module, "activation_fake_quantizer", None)):
                if quantiser is not None:
                    quantiser.enabled = state.global_step >= self.after


class Log(transformers.TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, _args, state, _control, logs=None, **__):
        if logs and "loss" in logs:
            self.steps.append({"step": state.global_step, "loss": logs["loss"], "grad_norm": logs["grad_norm"]})


def run(out, name, rows):
    qat, log = CASES[name], Log()
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDENS / "preference_training" / "model", dtype=torch.float32)
    put_in(model, qat)
    callbacks = [log] + ([Late(qat["fake_quant_after_n_steps"])] if "fake_quant_after_n_steps" in qat else [])
    with tempfile.TemporaryDirectory() as scratch:
        arguments = transformers.TrainingArguments(
            output_dir=scratch, max_steps=FEWER_STEPS.get(name, STEPS), per_device_train_batch_size=ROWS.get(name, 2), gradient_accumulation_steps=ACCUMULATION,
            learning_rate=RATE, lr_scheduler_type="constant", optim="adamw_torch", adam_epsilon=1e-8, weight_decay=0.0, max_grad_norm=1.0,
            train_sampling_strategy="sequential", logging_steps=1, logging_nan_inf_filter=False, save_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=True, bf16=False)
        trainer = transformers.Trainer(model=model, args=arguments, data_collator=collate, train_dataset=Dataset.from_list(rows), callbacks=callbacks)
        trainer.train()
    folder = out / "cases" / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: p.detach().clone() for n, p in trainer.model.named_parameters()}, folder / "final.safetensors")
    (folder / "expected.json").write_text(json.dumps({"steps": log.steps}, indent=1) + "\n")
    config = {"base_model": "../../../preference_training/model", "qat": qat, "datasets": [{"path": "../../../distillation/rows.jsonl", "ds_type": "json"}],
              "sequence_len": 40, "shuffle_merged_datasets": False, "curriculum_sampling": True, "micro_batch_size": ROWS.get(name, 2),
              "gradient_accumulation_steps": ACCUMULATION, "max_steps": FEWER_STEPS.get(name, STEPS), "learning_rate": RATE, "lr_scheduler": "constant",
              "optimizer": "adamw_torch", "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": False, "logging_steps": 1,
              "save_strategy": "no", "output_dir": "out"}
    (folder / "config.yml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    put_torch_right()
    out.mkdir(parents=True, exist_ok=True)
    write_formats(out / "formats.json")
    rows = [json.loads(line) for line in (GOLDENS / "distillation" / "rows.jsonl").read_text().splitlines()]
    for name in CASES:
        run(out, name, rows)


if __name__ == "__main__":
    main()
