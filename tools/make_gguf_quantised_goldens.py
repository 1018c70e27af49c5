#!/usr/bin/env python3
"""Writes tests/golden/gguf_quantised: what ggml's quantisers make of values, and llama-quantize of models.

    pip install -r tools/gguf_quantised_requirements.txt
    tools/make_gguf_quantised_goldens.py tests/golden/gguf_quantised

blocks.gguf has a tensor of f32 values and the same in each encoding, by ggml_quantize_chunk without an importance
matrix. mixtures.json has, for models of several sizes, the types that llama.cpp's llama_model_quantize gives their
tensors in a file of type Q4_K_M: of each kind of tensor a list by layer.
"""

import argparse
import collections
import ctypes
import json
import pathlib
import tempfile

import _pywhispercpp
import cyllama.llama.llama_cpp as llama_cpp
import gguf
import numpy as np

Q4_K_M = 15
TYPES = [gguf.GGMLQuantizationType[name] for name in ("Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")]
# architecture, layers, hidden, intermediate, heads, kv_heads, head_dim, tied
MODELS = [
    ("llama", 2, 256, 512, 4, 2, 64, False),
    ("llama", 9, 256, 256, 4, 4, 64, True),
    ("llama", 30, 64, 256, 4, 2, 16, True),
    ("qwen3", 16, 256, 288, 4, 2, 32, True),
    ("qwen2", 7, 96, 128, 2, 1, 48, False),
    ("llama", 80, 256, 256, 4, 2, 64, False),
    ("llama", 80, 256, 256, 4, 4, 64, False),
    ("qwen2", 80, 256, 256, 4, 4, 64, False),
    ("llama", 80, 64, 64, 4, 2, 16, False),
]
VOCABULARY = 64


def ggml():
    # Beside the package's module.
    folder = pathlib.Path(_pywhispercpp.__file__).parent
    return ctypes.CDLL(str(next(folder.glob("libggml-base.so*"))))


def values():
    """Returns numbers of many kinds, in whole blocks of 256."""
    random, n = np.random.default_rng(5), 256
    parts = [random.normal(size=4 * n), random.uniform(-1, 1, size=2 * n) * 0.02, random.standard_t(2, size=4 * n) * 0.05]
    parts += [np.zeros(n), np.full(n, 0.25), np.full(n, -2.5), random.normal(size=n) + 3, random.normal(size=n) * 1e-9]
    parts += [np.where(random.uniform(size=n) < 0.95, 0, random.normal(size=n)), np.linspace(-4, 4, n), -np.abs(random.normal(size=n)), random.integers(-8, 8, size=n) / 8.0]
    # Groups whose scale is nothing beside that of another.
    parts += [np.where(np.arange(n) < 32, 50.0, 1e-3) * random.normal(size=n)]
    return np.concatenate(parts).astype(np.float32)


def write_blocks(path):
    quantise = ggml().ggml_quantize_chunk
    quantise.restype = ctypes.c_size_t
    quantise.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    x = values()
    writer = gguf.GGUFWriter(path, "none")
    writer.add_tensor("values", x.reshape(-1, 256))
    for type_ in TYPES:
        elems, size = gguf.GGML_QUANT_SIZES[type_]
        blocks = np.zeros((x.size // 256, 256 // elems * size), np.uint8)
        assert quantise(type_.value, x.ctypes.data, blocks.ctypes.data, 0, x.size // 256, 256, None) == blocks.size
        writer.add_tensor(type_.name, blocks, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(path, architecture, layers, hidden, intermediate, heads, kv_heads, head_dim, tied):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(intermediate)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(0)
    writer.add_tokenizer_model("no_vocab")
    random = np.random.default_rng(0)

    def add(name, *shape):
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))

    add("token_embd.weight", VOCABULARY, hidden)
    for layer in range(layers):
        q, kv = heads * head_dim, kv_heads * head_dim
        for name, shape in {"attn_norm": [hidden], "attn_q": [q, hidden], "attn_k": [kv, hidden], "attn_v": [kv, hidden], "attn_output": [hidden, q], "ffn_norm": [hidden], "ffn_gate": [intermediate, hidden], "ffn_up": [intermediate, hidden], "ffn_down": [hidden, intermediate]}.items():
            add(f"blk.{layer}.{name}.weight", *shape)
    add("output_norm.weight", hidden)
    if not tied:
        add("output.weight", VOCABULARY, hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def mixture(folder, *model):
    plain, quantised = folder / "plain.gguf", folder / "quantised.gguf"
    write_model(plain, *model)
    parameters = llama_cpp.LlamaModelQuantizeParams()
    parameters.ftype = Q4_K_M
    llama_cpp.model_quantize(str(plain), str(quantised), parameters)
    reader = gguf.GGUFReader(quantised)
    assert reader.fields["general.file_type"].contents() == Q4_K_M
    types = collections.defaultdict(list)
    for tensor in sorted(reader.tensors, key=lambda tensor: int(tensor.name.split(".")[1]) if tensor.name.startswith("blk.") else -1):
        kind = ".".join(tensor.name.split(".")[2:]) if tensor.name.startswith("blk.") else tensor.name
        types[kind].append(tensor.tensor_type.name)
    names = ["architecture", "layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "tied"]
    return {**dict(zip(names, model)), "vocabulary": VOCABULARY, "types": types}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    write_blocks(out / "blocks.gguf")
    with tempfile.TemporaryDirectory() as folder:
        mixtures = [mixture(pathlib.Path(folder), *model) for model in MODELS]
    lines = ",\n".join(" " + json.dumps(one) for one in mixtures)
    (out / "mixtures.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
