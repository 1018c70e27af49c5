"""Writes tests/golden/io/: a safetensors file and a sharded folder as the real libraries write them.

Run with torch and safetensors installed:  python tools/make_safetensors_goldens.py
"""
import json
import pathlib

import torch
from safetensors.torch import save_file

out = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "io"
out.mkdir(parents=True, exist_ok=True)

# src/io/safetensors_test.cc computes the same values: element i is (i - 7) / 8.
values = (torch.arange(24) - 7) / 8
save_file(
    {
        "in_f32": values.reshape(4, 6),
        "in_bf16": values.reshape(4, 6).bfloat16(),
        "in_f16": values.reshape(2, 3, 4).half(),
        "in_i64": torch.arange(5) - 2,
        "in_u8": torch.arange(3, dtype=torch.uint8),
        "in_bool": torch.tensor([True, False]),
        "scalar": torch.tensor(0.5),
        "empty": torch.zeros(0, 3),
    },
    out / "mixed.safetensors",
    metadata={"format": "pt", "note": "a text"},
)

sharded = out / "sharded"
sharded.mkdir(exist_ok=True)
save_file({"a": values[:12].reshape(3, 4)}, sharded / "model-00001-of-00002.safetensors", metadata={"format": "pt"})
save_file({"b": values[12:].reshape(3, 4)}, sharded / "model-00002-of-00002.safetensors", metadata={"format": "pt"})
index = {
    "metadata": {"total_size": 96},
    "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
}
(sharded / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
