#!/usr/bin/env python3
"""Writes rows of 16 MB of random latents as Parquet, for bench_clips. usage: make_clip_rows.py FOLDER rowwise|table|files ROWS COMPRESSION

rowwise: one row group, written a row at a time, so that pyarrow gives each a page; table: one row group, written at once, so that pyarrow puts all into its dictionary;
files: as FastVideo writes them, eight rows a file.
"""
import pathlib
import sys

import numpy
import pyarrow
import pyarrow.parquet

SHAPE = [16, 40, 60, 104]
FIELDS = [(f"{name}_{what}", kind) for name in ("vae_latent", "text_embedding")
          for what, kind in (("bytes", pyarrow.binary()), ("shape", pyarrow.list_(pyarrow.int64())), ("dtype", pyarrow.string()))]
SCHEMA = pyarrow.schema(FIELDS)


def main():
    folder, kind, rows, compression = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(1)
    latents = random.standard_normal(SHAPE).astype(numpy.float32)

    def row(number):
        text = random.standard_normal((8, 16)).astype(numpy.float32)
        values = latents * numpy.float32(1 + number / 1000)
        return {"vae_latent_bytes": values.tobytes(), "vae_latent_shape": SHAPE, "vae_latent_dtype": "float32", "text_embedding_bytes": text.tobytes(), "text_embedding_shape": [8, 16],
                "text_embedding_dtype": "float32"}

    def table(numbers):
        return pyarrow.Table.from_pylist([row(number) for number in numbers], SCHEMA)

    if kind == "rowwise":
        with pyarrow.parquet.ParquetWriter(folder / "rows.parquet", SCHEMA, compression=compression) as writer:
            for number in range(rows):
                writer.write_batch(pyarrow.RecordBatch.from_pylist([row(number)], SCHEMA))
        return
    step = 8 if kind == "files" else rows
    for first in range(0, rows, step):
        pyarrow.parquet.write_table(table(range(first, min(rows, first + step))), folder / f"{first:05}.parquet", compression=compression)


if __name__ == "__main__":
    main()
