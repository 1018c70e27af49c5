#!/usr/bin/env python3
"""Writes tests/golden/packing.json: what trl.pack_dataset of TRL 1.16 makes of rows of given lengths.

Needs trl and datasets. Token ids count up through all rows, so that each packed sequence is told by its first id and
its length.
"""
import json
import pathlib
import random

from datasets import Dataset
from trl import pack_dataset

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "packing.json"


def cases():
    rng = random.Random(1)
    yield "the documentation's", [5, 2, 3, 1], 4, 1000
    yield "empty rows", [0, 3, 0, 2, 7, 0], 4, 1000
    yield "many ties", [rng.choice([3, 5, 8]) for _ in range(60)], 16, 1000
    yield "equal rows", [4] * 9, 8, 1000
    yield "full rows", [8, 8, 8], 8, 1000
    yield "rows of one token", [1] * 10, 4, 1000
    yield "one token per line", [1, 2, 1], 1, 1000
    yield "not a power of two", [rng.randint(1, 25) for _ in range(70)], 19, 1000
    yield "long rows", [rng.randint(1, 70) for _ in range(30)], 16, 1000
    yield "several map batches", [rng.randint(1, 20) for _ in range(45)], 16, 10
    yield "map batches of ties", [rng.choice([2, 3, 6, 11]) for _ in range(40)], 12, 8
    yield "a thousand rows a batch", [min(40, int(rng.expovariate(1 / 12)) + 1) for _ in range(1100)], 40, 1000


def sequences_of(packed):
    """[line][sequence][first id, length]"""
    lines = []
    for row in packed:
        ids, begin, line = row["input_ids"], 0, []
        for length in row.get("seq_lengths") or [len(ids)]:
            assert ids[begin : begin + length] == list(range(ids[begin], ids[begin] + length))
            line.append([ids[begin], length])
            begin += length
        assert begin == len(ids)
        lines.append(line)
    return lines


def main():
    made = []
    for name, lengths, max_length, batch_size in cases():
        ids, begin = [], 0
        for length in lengths:
            ids.append(list(range(begin, begin + length)))
            begin += length
        packed = {}
        for strategy in ("bfd", "bfd_split", "wrapped"):
            dataset = Dataset.from_dict({"input_ids": ids})
            packed[strategy] = sequences_of(pack_dataset(dataset, max_length, strategy, {"batch_size": batch_size}))
        made.append({"name": name, "lengths": lengths, "max_length": max_length, "batch_size": batch_size, "packed": packed})
    OUT.write_text('{"cases": [\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in made) + "\n]}\n")


main()
