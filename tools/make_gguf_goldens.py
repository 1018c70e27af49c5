"""Writes tests/golden/io/types.gguf: every metadata type, and every tensor encoding with the values that it stands for.

Run with numpy and gguf installed:  python tools/make_gguf_goldens.py
A tensor NAME.values in f32 holds what the gguf package makes of the tensor NAME.
"""
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType as V

out = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "io" / "types.gguf"
random = np.random.default_rng(0)
ELEMS = 512
# The places of the f16 scales in a block. Random bytes there would often be NaN or infinity.
K_SCALES = {T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}


def random_blocks(type_):
    block_elems, block_bytes = gguf.GGML_QUANT_SIZES[type_]
    blocks = random.integers(0, 256, (ELEMS // block_elems, block_bytes), dtype=np.uint8)
    for place in K_SCALES[type_]:
        scales = random.uniform(-0.1, 0.1, len(blocks)).astype(np.float16)
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(1, -1)


writer = gguf.GGUFWriter(out, "test")
for name, value, type_ in [
    ("u8", 200, V.UINT8),
    ("i8", -100, V.INT8),
    ("u16", 60000, V.UINT16),
    ("i16", -30000, V.INT16),
    ("u32", 4000000000, V.UINT32),
    ("i32", -2000000000, V.INT32),
    ("u64", 2**62, V.UINT64),
    ("i64", -(2**62), V.INT64),
    ("f32", 0.1, V.FLOAT32),
    ("f64", 0.1, V.FLOAT64),
    ("bool", True, V.BOOL),
    ("string", "häuser", V.STRING),
]:
    writer.add_key_value(f"test.{name}", value, type_)
writer.add_array("test.strings", ["a", "", "ĠĠ"])
writer.add_array("test.ints", [1, -2, 3])
writer.add_array("test.floats", [0.5, -1.5])

values = random.normal(0, 1, (1, ELEMS)).astype(np.float32)
for type_ in [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, *K_SCALES, T.MXFP4]:
    data = random_blocks(type_) if type_ in K_SCALES else gguf.quants.quantize(values, type_)
    if type_ in (T.F32, T.F16):
        writer.add_tensor(type_.name, data)
    else:
        writer.add_tensor(type_.name, data.view(np.uint8), raw_dtype=type_)
    writer.add_tensor(f"{type_.name}.values", gguf.quants.dequantize(data, type_).astype(np.float32))

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
