#!/usr/bin/env python3
"""Writes tests/golden/packing.json: what trl.pack_dataset of TRL 1.16 makes of rows of given lengths, and how many of the rows
each bin of axolotl 0.19's pack_group has, which is given the longest rows first.

Needs trl, datasets, numba, and axolotl's sources on PYTHONPATH. Token ids count up through all rows, so that each packed
sequence is told by its first id and its length.
"""
import json
import pathlib
import random
import sys
import unittest.mock

import numpy
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


def load_pack_group():
    sys.modules["axolotl.utils.distributed"] = unittest.mock.MagicMock()  # wants all that axolotl trains with
    from axolotl.utils.samplers.multipack import pack_group
    return pack_group


def binned_cases():
    rng, pack_group = random.Random(2), load_pack_group()
    for name, lengths, capacity, bin_size in (
            ("three a bin", [rng.randint(1, 12) for _ in range(50)], 31, 3), ("one a bin", [1, 2, 3], 31, 1), ("any number", [1] * 40 + [7] * 9, 31, 200),
            ("ties", [rng.choice([2, 3, 5]) for _ in range(80)], 16, 4), ("longer than any", [rng.randint(1, 90) for _ in range(400)], 100, 5)):
        by_length = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        bins = pack_group(numpy.array([lengths[row] for row in by_length]), 0, capacity, len(lengths), bin_size, True)
        yield {"name": name, "lengths": lengths, "capacity": capacity, "bin_size": bin_size,
               "bins": sorted(sorted(by_length[place] for place in members) for members in bins)}


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
    def lines(items):
        return "[\n" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in items) + "\n]"

    OUT.write_text('{"cases": ' + lines(made) + ',\n"binned": ' + lines(binned_cases()) + "}\n")


main()
