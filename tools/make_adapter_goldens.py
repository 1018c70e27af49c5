#!/usr/bin/env python3
"""Adds variants of LoRA to tests/golden/models: what peft makes of the tiny models there.

    pip install torch transformers peft safetensors bitsandbytes accelerate      # torch 2.15, transformers 5.23, peft 0.21, bitsandbytes 0.50
    python tools/make_adapter_goldens.py tests/golden/models

Numbers are computed as tools/make_model_goldens.py computes them, of models that it has written.

    NAME/adapter_CASE/        the PEFT folder to start from
    NAME/golden_CASE.json     "check" and "curve" as in golden.json; "merged" is what merge_and_unload makes of the adapter
    NAME/golden_CASE.safetensors    the adapter after training

Cases: `dora`, use_dora with magnitudes that are not the norms; `dora_nf4`, the same beside linear layers that bitsandbytes
has quantised to NF4 in f32. Of adapters that start as a part of their weights there is no folder, and no final adapter, since
signs are free: `pissa`, `pissa_dora`, `olora`; `loftq`, whose start peft computes on a GPU alone: its formula on bitsandbytes'
codes.
"""

import argparse
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import save_file

import make_model_goldens as models
from golden_batches import make_batches
from golden_model_folders import load
from golden_training import check_values, compact, digest, train, trainable

DORA = ["llama2", "llama_bias", "qwen3"]
DORA_NF4 = ["llama2"]
STARTS = {"pissa": {"init_lora_weights": "pissa"}, "pissa_dora": {"init_lora_weights": "pissa", "use_dora": True},
          "olora": {"init_lora_weights": "olora"}, "loftq": {}}


def load_nf4(folder):
    from bitsandbytes.nn import Linear4bit
    options = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=False,
                                              bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, quantization_config=options, dtype=torch.float32,
                                                              attn_implementation="eager", device_map="cpu")
    assert sum(isinstance(module, Linear4bit) for module in model.modules()) == 14
    # peft wraps layers with a path of their own for 4 bits, whose product is that with the dequantised weight: in training,
    # as in inference the CPU's fused kernel may take scales of other blocks. The mode is the same for all else.
    return model.train()


def write_dora(folder, target, seed):
    model = load(folder)
    torch.manual_seed(seed)
    adapted = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=models.LORA_TARGETS.get(folder.name, "all-linear"), use_dora=True, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in trainable(adapted).items():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
            if "magnitude" in name:
                parameter.mul_(1 + 0.1 * torch.randn(parameter.shape))
    models.save_adapter(adapted, target)


def name_in_file(name):
    """DoRA's magnitudes are modules of their own in memory."""
    return name.removesuffix(".weight") if "lora_magnitude_vector" in name else name


def goldens(folder, case, load, batches):
    adapted = peft.PeftModel.from_pretrained(load(folder), folder / f"adapter_{case.removesuffix('_nf4')}", is_trainable=True)
    if case != "dora_nf4":
        adapted.eval()
    check, _ = check_values(adapted, batches["check"])
    curve, after = train(adapted, batches["train"], learning_rate=1e-2)
    golden = {"check": check, "curve": curve}
    check["grad_norms"] = {name_in_file(n): v for n, v in check["grad_norms"].items()}
    curve["final"] = {name_in_file(n): v for n, v in curve["final"].items()}
    if case != "dora_nf4":
        merged = peft.PeftModel.from_pretrained(load(folder), folder / f"adapter_{case}").merge_and_unload()
        golden["merged"] = {n: digest(torch.zeros(()), t) for n, t in merged.state_dict().items()}
    (folder / f"golden_{case}.json").write_text(compact(golden))
    save_file({name_in_file(n): t for n, t in after.items()}, folder / f"golden_{case}.safetensors")
    print(f"{folder.name:14} {case:10} loss {check['loss']:.6f} grad {check['grad_norm']:.4f}  {curve['loss'][0]:.4f} -> {curve['loss'][-1]:.4f}")


def start_as_loftq(adapted):
    """peft/utils/loftq_utils.py, loftq_init, with one iteration."""
    import bitsandbytes.functional as F
    for module in adapted.modules():
        if not isinstance(module, peft.tuners.lora.Linear):
            continue
        base, r = module.get_base_layer().weight, module.r["default"]
        codes, state = F.quantize_4bit(base.data, blocksize=64, quant_type="nf4", compress_statistics=False)
        quantised = F.dequantize_4bit(codes, state)
        u, s, vh = torch.linalg.svd(base.data - quantised, full_matrices=False)
        module.lora_B["default"].weight.data = u[:, :r] @ torch.diag(s[:r].sqrt())
        module.lora_A["default"].weight.data = torch.diag(s[:r].sqrt()) @ vh[:r]
        base.data = quantised


def start_goldens(folder, case, batches):
    adapted = peft.get_peft_model(load(folder), peft.LoraConfig(
        r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM", **STARTS[case])).eval()
    if case == "loftq":
        start_as_loftq(adapted)
    check, _ = check_values(adapted, batches["check"])
    del check["grad_norms"]
    curve, _ = train(adapted, batches["train"], learning_rate=1e-2)
    del curve["final"]
    merged = {n: digest(torch.zeros(()), t) for n, t in adapted.merge_and_unload().state_dict().items()}
    (folder / f"golden_{case}.json").write_text(compact({"check": check, "curve": curve, "merged": merged}))
    print(f"{folder.name:14} {case:10} loss {check['loss']:.6f} grad {check['grad_norm']:.4f}  {curve['loss'][0]:.4f} -> {curve['loss'][-1]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    batches = make_batches()
    for seed, name in enumerate(DORA):
        write_dora(out / name, out / name / "adapter_dora", seed)
        goldens(out / name, "dora", load, batches)
    for name in DORA_NF4:
        goldens(out / name, "dora_nf4", load_nf4, batches)
    for case in STARTS:
        start_goldens(out / "llama2", case, batches)


if __name__ == "__main__":
    main()
