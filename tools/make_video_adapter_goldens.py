#!/usr/bin/env python3
"""Writes tests/golden/video/adapter_names.json: what diffusers makes of the names that ComfyUI and kohya's trainer
(musubi-tuner) give the tensors of a Wan LoRA.

    python3 -m venv names && names/bin/pip install torch diffusers==0.42.1 transformers peft
    names/bin/python tools/make_video_adapter_goldens.py

The tensors are numbered, so that the result says which name each came from; arrays are enough for the converters.
"""
import json
import pathlib

import numpy
import diffusers.loaders.lora_conversion_utils as diffusers

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "video" / "adapter_names.json"
MODULES = [f"{attention}.{part}" for attention in ("self_attn", "cross_attn") for part in "qkvo"] + \
    ["cross_attn.k_img", "cross_attn.v_img", "ffn.0", "ffn.2"]


def names_of(convert, module_name, down, up):
    """Foreign name -> diffusers' name."""
    state, number = {}, {}
    for block in (0, 1):
        for module in MODULES:
            name = module_name(block, module)
            for tensor, shape in ((f"{name}.{down}.weight", (1, 2)), (f"{name}.{up}.weight", (2, 1))):
                number[len(number) + 1.0] = tensor
                state[tensor] = numpy.full(shape, float(len(number)))
            state[f"{name}.alpha"] = numpy.array(1.0)  # as large as the rank: tensors keep their values
    return {number[tensor.flat[0]]: name for name, tensor in convert(dict(state)).items()}


def main():
    golden = {
        "comfyui": names_of(diffusers._convert_non_diffusers_wan_lora_to_diffusers,
                            lambda block, module: f"diffusion_model.blocks.{block}.{module}", "lora_A", "lora_B"),
        "kohya": names_of(diffusers._convert_musubi_wan_lora_to_diffusers,
                          lambda block, module: f"lora_unet_blocks_{block}_{module.replace('.', '_')}", "lora_down",
                          "lora_up")}
    OUT.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
