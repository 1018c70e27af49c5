#!/usr/bin/env python3
"""Writes tests/golden/files/mixtures.json: the rows that TRL takes of datasets with fractions, columns and data_dir.

needs: trl 1.16
usage: tools/make_mixture_goldens.py
"""

import json
import os
import pathlib
import tempfile

os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
from trl.scripts.utils import DatasetConfig, DatasetMixtureConfig, get_dataset

OUT = pathlib.Path(__file__).parent.parent / "tests/golden/files/mixtures.json"

MIXTURES = [
    {"sizes": [10, 10], "fractions": [0.5, 0.5]},
    {"sizes": [10, 4], "fractions": [0.8, 0.2]},
    {"sizes": [7, 11, 5], "fractions": [1, 2, 3]},
    {"sizes": [9, 9, 3], "fractions": [0.25, 0.25, 0.5]},
    {"sizes": [5, 7], "fractions": [0, 3]},
    {"sizes": [5, 5], "fractions": [0.1, 0.9]},
]

FOLDERS = [
    {"files": ["a/train.jsonl", "a/test.jsonl", "b/x.jsonl", "train.jsonl"], "data_dir": "a", "split": "train"},
    {"files": ["a/train.jsonl", "a/test.jsonl", "b/x.jsonl", "train.jsonl"], "data_dir": "a", "split": "test"},
    {"files": ["a/train.jsonl", "b/x.jsonl", "b/y.jsonl"], "data_dir": "b", "split": "train"},
    {"files": ["a/deep/train-1.jsonl", "a/deep/train-2.jsonl", "x.jsonl"], "data_dir": "a/deep", "split": "train"},
    {"files": ["a/x.jsonl", "a/y.jsonl", "x.jsonl"], "data_dir": "a", "data_files": ["y.jsonl"], "split": "train"},
    {"files": ["a/x.jsonl", "b/x.jsonl"], "path": "json", "data_dir": "b", "split": "train"},
]


def write(path, first, count):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"n": first + i, "m": -i}) + "\n" for i in range(count)))


def rows_of(mixture):
    return get_dataset(mixture)["train"]["n"]


def main():
    result = {"mixtures": [], "folders": []}
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for i, case in enumerate(MIXTURES):
            parts = []
            for j, (size, fraction) in enumerate(zip(case["sizes"], case["fractions"])):
                path = root / f"mixture-{i}" / f"{j}.jsonl"
                write(path, 100 * j, size)
                parts.append(DatasetConfig("json", data_files=str(path), columns=["n"], fraction=fraction))
            result["mixtures"].append({**case, "rows": list(rows_of(DatasetMixtureConfig(datasets=parts)))})
        for i, case in enumerate(FOLDERS):
            folder = root / f"folder-{i}"
            for j, file in enumerate(case["files"]):
                write(folder / file, 100 * j, 2)
            data_dir = str(folder / case["data_dir"]) if "path" in case else case["data_dir"]
            part = DatasetConfig(case.get("path", str(folder)), data_dir=data_dir, data_files=case.get("data_files"),
                                 split=case["split"])
            result["folders"].append({**case, "rows": list(rows_of(DatasetMixtureConfig(datasets=[part])))})
    OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
