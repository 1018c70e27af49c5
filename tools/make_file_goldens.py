#!/usr/bin/env python3
"""Writes tests/golden/files/: small data files in every format that pyarrow and datasets write, with the rows in them, and what slices of splits mean.

Made with pyarrow 26.0 and datasets 5.2.
"""
import datetime
import decimal
import gzip
import json
import pathlib
import shutil

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
from datasets import Dataset, DatasetDict, ReadInstruction

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "files"

ROWS = [{"text": f"row {i} é", "number": i * 7 - 3, "share": i / 4, "flag": i % 2 == 0, "ids": list(range(i)), "none": None,
         "messages": [{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": None if i == 2 else "a"}], "nested": {"x": {"y": [[1], []]}}} for i in range(5)]
SPLITS = ["train", "train[:2]", "train[1:3]", "train[-2:]", "train[:-3]", "train[:10%]", "train[25%:75%]", "train[-15%:]", "train[:2]+train[4:]", "train[1_0:1_2]",
          "train[:34%](pct1_dropremainder)", "train[1:3](pct1_dropremainder)", "train(pct1_dropremainder)", "train[1:3](closest)", "train[1:30%]", "train[10%:90]"]


def as_text(value):
    """Bytes as records have them: null where they are no text."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def as_text(value):
    """Bytes as records have them: null where they are no text."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def write_tables():
    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, OUT / "rows.parquet", compression="zstd", row_group_size=2)
    pyarrow.parquet.write_table(table, OUT / "snappy.parquet", compression="snappy", version="1.0", data_page_version="1.0")
    with pyarrow.ipc.new_stream(OUT / "rows.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    with pyarrow.ipc.new_file(OUT / "file.arrow", table.schema, options=pyarrow.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    others = pyarrow.table({
        "words": pyarrow.array(["a", "b", "a"]).dictionary_encode(), "large": pyarrow.array(["x", None, "z"], pyarrow.large_string()),
        "bytes": pyarrow.array([b"a", b"\xff\xd8\xff\xe0", b""]), "large_bytes": pyarrow.array([b"ab", b"\x80\x00", None], pyarrow.large_binary()),
        "image": pyarrow.array([{"bytes": b"\x89PNG\r\n", "path": "a.png"}] * 3), "small": pyarrow.array([1, -2, 3], pyarrow.int8()), "big": pyarrow.array([1, 2**63, 2**64 - 1], pyarrow.uint64()),
        "float": pyarrow.array([0.5, 1.5, None], pyarrow.float32()), "fixed": pyarrow.array([[1, 2], [3, 4], None], pyarrow.list_(pyarrow.int32(), 2)),
        "map": pyarrow.array([[("k", 1)], [], None], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "day": pyarrow.array([datetime.date(2020, 1, 2)] * 3), "price": pyarrow.array([decimal.Decimal("1.50")] * 3)})
    pyarrow.parquet.write_table(others, OUT / "others.parquet")
    expected = others.to_pylist()
    for row in expected:
        for value, name in (row, "bytes"), (row, "large_bytes"), (row["image"], "bytes"):
            value[name] = as_text(value[name])
        row["map"] = None if row["map"] is None else dict(row["map"])
        row["day"], row["price"] = str(row["day"]), str(row["price"])
    (OUT / "others.json").write_text(json.dumps(expected, indent=1) + "\n")


def write_nulls():
    """A row that is half a kilobyte in the file and would be 32 GiB of JSON."""
    count = 2**31 - 8
    nulls = pyarrow.ListArray.from_arrays(pyarrow.array([0, count], pyarrow.int32()), pyarrow.nulls(count))
    batch = pyarrow.record_batch([pyarrow.array(["a"]), nulls], names=["text", "nulls"])
    with pyarrow.ipc.new_stream(OUT / "nulls.arrow", batch.schema) as writer:
        writer.write_batch(batch)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    write_tables()
    write_nulls()
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    (OUT / "rows.jsonl").write_text(lines)
    half = len(lines.encode()) // 2  # two members
    (OUT / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()[:half], mtime=0) + gzip.compress(lines.encode()[half:], mtime=0))
    (OUT / "rows.jsonl.zst").write_bytes(pyarrow.compress(lines.encode(), codec="zstd", asbytes=True))
    saved = DatasetDict({"train": Dataset.from_list(ROWS[:3]), "test": Dataset.from_list(ROWS[3:])})
    saved.save_to_disk(OUT / "saved", num_shards={"train": 2, "test": 1})
    slices = []
    for split in SPLITS:
        for rows in (7, 15, 250):
            try:
                made = ReadInstruction.from_spec(split).to_absolute({"train": rows})
            except (AssertionError, ValueError):
                made = None
            slices.append({"split": split, "rows": rows, "ranges": made and [[a.from_, a.to] for a in made]})
    (OUT / "splits.json").write_text("[\n" + ",\n".join(json.dumps(s) for s in slices) + "\n]\n")


if __name__ == "__main__":
    main()
