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
