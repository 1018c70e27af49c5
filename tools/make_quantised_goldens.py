#!/usr/bin/env python3
"""Writes tests/golden/quantised: a tiny random Llama as bitsandbytes quantises it and transformers saves it.

    pip install torch transformers bitsandbytes accelerate safetensors   # torch 2.15, transformers 5.23, bitsandbytes 0.50
    python tools/make_quantised_goldens.py tests/golden/quantised

    dense/                      the model before it is quantised, in bf16
    NAME/                       the same after: save_pretrained's folder (see FORMATS)
    NAME/dequantised.safetensors    the weights that the library computes with, by the names of dense/
    vectors.safetensors         functional.quantize_4bit, dequantize_4bit and int8_vectorwise_quant of numbers of every size:
                                CASE.x, .codes, .absmax, .back, and with double quantisation .nested_absmax, .offset
                                and .scales, the absmax that comes back
"""

import argparse
import shutil
from pathlib import Path

import bitsandbytes
import bitsandbytes.functional as F
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

# 44 * 40 elements are 27 blocks of 64 and a half. The AVX-512 kernel of the CPU wheel takes wrong scales where a row is a
# multiple of 16 but not of the block: 40 and 44 are not, and go the plain way.
CONFIG = dict(vocab_size=64, hidden_size=40, intermediate_size=44, num_hidden_layers=1, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=2,
              pad_token_id=None, rms_norm_eps=1e-5)
FORMATS = {
    "nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                bnb_4bit_compute_dtype=torch.bfloat16),
    "nf4_bf16_storage": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                             bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_quant_storage=torch.bfloat16),
    "fp4": dict(load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_use_double_quant=False),
    "int8": dict(load_in_8bit=True),
}


def dequantised(module):
    if isinstance(module, bitsandbytes.nn.Linear4bit):
        return F.dequantize_4bit(module.weight.data, module.weight.quant_state)
    # As bitsandbytes.autograd's MatMul8bitLt has it in training.
    weight = module.weight
    return weight.CB.to(torch.bfloat16, copy=True).mul_(weight.SCB.unsqueeze(1).mul(1.0 / 127.0))


def make_folder(out, dense, name, options):
    model = AutoModelForCausalLM.from_pretrained(dense, quantization_config=BitsAndBytesConfig(**options),
                                                 dtype=torch.bfloat16, device_map="cpu")
    model.save_pretrained(out / name)
    (out / name / "generation_config.json").unlink(missing_ok=True)
    kinds = (bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear8bitLt)
    weights = {f"{path}.weight": dequantised(module).contiguous()
               for path, module in model.named_modules() if isinstance(module, kinds)}
    save_file(weights, out / name / "dequantised.safetensors")


def make_vectors(out):
    vectors = {}
    generator = torch.Generator().manual_seed(7)
    for case, (count, block, kind, dtype, nested) in {
            "nf4_32": (32 * 300 + 7, 32, "nf4", torch.float32, True),
            "nf4_64_bf16": (64 * 9 + 33, 64, "nf4", torch.bfloat16, False),
            "nf4_4096_f16": (4096 + 100, 4096, "nf4", torch.float16, False),
            "fp4_64": (64 * 9 + 2, 64, "fp4", torch.float32, False),
            "fp4_128_bf16": (128 * 5 + 127, 128, "fp4", torch.bfloat16, False)}.items():
        x = torch.randn(count, generator=generator) * torch.exp(torch.randn(count, generator=generator))
        x[block:2 * block] = 0
        x[3 * block:3 * block + 5] *= 1e-30 if dtype != torch.float16 else 1e-5
        x = x.to(dtype)
        codes, state = F.quantize_4bit(x, blocksize=block, quant_type=kind, compress_statistics=nested)
        vectors |= {f"{case}.x": x, f"{case}.codes": codes.flatten(), f"{case}.absmax": state.absmax,
                    f"{case}.back": F.dequantize_4bit(codes, state)}
        if nested:
            vectors |= {f"{case}.nested_absmax": state.state2.absmax, f"{case}.offset": state.offset.reshape(1),
                        f"{case}.scales": F.dequantize_blockwise(state.absmax, state.state2) + state.offset}
    x = torch.randn(9, 53, generator=generator) * torch.logspace(-6, 3, 9).unsqueeze(1)
    x[4] = 0
    codes, absmax, _ = F.int8_vectorwise_quant(x.half())
    vectors |= {"int8.x": x, "int8.codes": codes, "int8.absmax": absmax,
                "int8.back": codes.float() * absmax.unsqueeze(1).mul(1.0 / 127.0)}
    save_file(vectors, out / "vectors.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(LlamaConfig(**CONFIG)).to(torch.bfloat16)
    model.save_pretrained(out / "dense")
    (out / "dense" / "generation_config.json").unlink(missing_ok=True)
    for name, options in FORMATS.items():
        make_folder(out, out / "dense", name, options)
    make_vectors(out)


if __name__ == "__main__":
    main()
