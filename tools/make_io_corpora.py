"""Writes seeds for the fuzz targets of the file readers: small files, right and wrong.

Run with numpy and gguf installed:  python tools/make_io_corpora.py
"""
import json
import pathlib
import struct

import gguf
import numpy as np

root = pathlib.Path(__file__).parent.parent / "tests" / "corpus"


def save(target, name, data):
    folder = root / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def safetensors(tensors, data, length=None):
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


good = {"__metadata__": {"format": "pt"}, "a": tensor("F32", [2], 0, 8), "b": tensor("BF16", [2, 1], 8, 12)}
data = struct.pack("<ff", 1, 2) + b"\x80\x3f\x00\x40"
save("safetensors_fuzz", "good", safetensors(good, data))
save("safetensors_fuzz", "half", safetensors({"a": tensor("F16", [4], 0, 8), "n": tensor("I64", [0], 8, 8)}, bytes(8)))
save("safetensors_fuzz", "infinite", safetensors({"a": tensor("BF16", [1], 0, 2)}, b"\x80\x7f"))
save("safetensors_fuzz", "cut", safetensors(good, data[:-3]))
save("safetensors_fuzz", "length", safetensors(good, data, 2**63))
save("safetensors_fuzz", "overlap", safetensors({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)))
save("safetensors_fuzz", "overflow", safetensors({"a": tensor("F32", [2**62, 4], 0, 8)}, bytes(8)))
save("safetensors_fuzz", "header", b"\x0c" + json.dumps(good).encode())


def write_gguf(folder, name, fill):
    path = root / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def blocks(writer):
    for type_ in (t for t in gguf.GGMLQuantizationType if t.name in "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split()):
        elems, size = gguf.GGML_QUANT_SIZES[type_]
        writer.add_tensor(type_.name, np.zeros((1, size), np.uint8), raw_dtype=type_)


def metadata(writer):
    for i, type_ in enumerate(t for t in gguf.GGUFValueType if t.name not in ("ARRAY", "STRING", "BOOL")):
        writer.add_key_value(type_.name, i, type_)
    writer.add_bool("bool", True)
    writer.add_array("strings", ["a", "b"])
    writer.add_array("numbers", [1, 2])
    writer.add_array("floats", [1.5])


def model(tokenizer):
    def fill(writer):
        for key in ("block_count", "embedding_length", "feed_forward_length", "attention.head_count", "context_length"):
            writer.add_uint32(f"llama.{key}", 4 if key != "attention.head_count" else 1)
        writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        writer.add_tokenizer_model(tokenizer)
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(["<s>", "a", "b", "ab"])
        writer.add_token_types([3, 1, 1, 1])
        writer.add_token_scores([0.0, -1.0, -2.0, -3.0])
        writer.add_token_merges(["a b"])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_chat_template("{{ x }}")
        writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
        writer.add_tensor("rope_freqs.weight", np.ones(2, np.float32))

    return fill


write_gguf("gguf_fuzz", "blocks", blocks)
write_gguf("gguf_fuzz", "metadata", metadata)
content = (root / "gguf_fuzz" / "metadata").read_bytes()
save("gguf_fuzz", "cut", content[: len(content) // 2])
save("gguf_fuzz", "counts", content[:8] + b"\xff" * 16 + content[24:])
write_gguf("import_gguf_fuzz", "gpt2", model("gpt2"))
write_gguf("import_gguf_fuzz", "llama", model("llama"))


def quantised(state, parts):
    """A weight of 4 bits: a file of its parts, name -> (dtype, shape, bytes)."""
    tensors, data = {}, b""
    parts = {**parts, f"w.quant_state.bitsandbytes__{state['quant_type']}": ("U8", None, json.dumps(state).encode())}
    for name, (dtype, shape, content) in parts.items():
        tensors[name] = tensor(dtype, shape or [len(content)], len(data), len(data) + len(content))
        data += content
    return safetensors(tensors, data)


nf4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
state = {"quant_type": "nf4", "blocksize": 32, "dtype": "bfloat16", "shape": [5, 7]}
plain = {"w": ("U8", [18, 1], bytes(range(18))), "w.absmax": ("F32", [2], struct.pack("<2f", 0.5, 2)),
         "w.quant_map": ("F32", [16], struct.pack("<16f", *nf4))}
save("quantised_fuzz", "nf4", quantised(state, plain))
nested = {**state, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.25}
save("quantised_fuzz", "nested", quantised(nested, {
    **plain, "w.absmax": ("U8", [2], b"\x10\xf0"), "w.nested_absmax": ("F32", [1], struct.pack("<f", 0.5)),
    "w.nested_quant_map": ("F32", [256], bytes(1024))}))
save("quantised_fuzz", "state", json.dumps(nested).encode())
save("quantised_fuzz", "int8", safetensors(
    {"a.weight": tensor("I8", [2, 3], 0, 6), "a.SCB": tensor("F32", [2], 6, 14), "a.weight_format": tensor("U8", [], 14, 15)},
    bytes(range(6)) + struct.pack("<2f", 1, 2) + b"\x00"))
save("quantised_fuzz", "config", json.dumps(
    {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "llm_int8_skip_modules": ["lm_head"],
     "quant_method": "bitsandbytes"}).encode())
