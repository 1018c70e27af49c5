#!/usr/bin/env python3
"""Writes tests/golden/clips/: rows of video datasets in the shape of FastVideo's preprocessing, with the values in them, and tables of timesteps.

Made with pyarrow 26.0.1, safetensors 0.8 and numpy 2.
"""
import json
import pathlib
import shutil

import numpy
import pyarrow
import pyarrow.parquet
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "clips"
CHANNELS, TEXT_WIDTH, IMAGE_WIDTH, IMAGE_CHANNELS = 2, 3, 5, 4
RANDOM = numpy.random.default_rng(17)


def bfloat16(values):
    """The upper halves of floats that have nothing in the lower."""
    return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


def encoded(values, dtype):
    if dtype.endswith("bfloat16"):
        return bfloat16(values).tobytes()
    return values.astype(dtype.removeprefix("torch.")).tobytes()


def values_of(*shape):
    """Numbers that every dtype holds exactly."""
    return RANDOM.integers(-64, 64, shape).astype(numpy.float32) / 16


def columns_of(name, values, dtype):
    return {f"{name}_bytes": encoded(values, dtype), f"{name}_shape": list(values.shape), f"{name}_dtype": dtype}


NO_IMAGE = {"clip_feature_bytes": b"", "clip_feature_shape": [], "clip_feature_dtype": "", "first_frame_latent_bytes": b"", "first_frame_latent_shape": [], "first_frame_latent_dtype": ""}


def row_of(number, latents, text, dtype="float32", **others):
    row = {"id": f"clip_{number}", "file_name": f"clip {number}.mp4", "caption": "a disc", "media_type": "video" if latents.ndim == 4 else "image", **columns_of("vae_latent", latents, dtype),
           **columns_of("text_embedding", text, dtype), "width": int(latents.shape[-1]) * 8, "height": int(latents.shape[-2]) * 8, "num_frames": int(latents.shape[1]) if latents.ndim == 4 else 1,
           "duration_sec": 1.5, "fps": 16.0, **others}
    return row


def expected(latents, text, **others):
    return {"latents": latents.ravel().tolist(), "shape": list(latents.shape), "text": text.ravel().tolist(), **{name: values.ravel().tolist() for name, values in others.items()}}


def write(path, rows, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, store_schema=path.name == "a.parquet", **options)


def write_text_to_video():
    """Every compression, dtype and kind of page, in the order of the paths."""
    kinds = [("a.parquet", "float32", {"compression": "snappy"}), ("b/0.parquet", "float16", {"compression": "zstd"}), ("b/deeper/1.parquet", "torch.bfloat16", {"compression": "gzip"}),
             ("b/deeper/2.parquet", "float64", {"compression": "brotli"}), ("c/3.parquet", "torch.float32", {"compression": "lz4"}), ("d.parquet", "bfloat16", {"compression": "none"}),
             ("e.parquet", "float32", {"compression": "none", "use_dictionary": False}), ("f.parquet", "float32", {"use_dictionary": False, "data_page_version": "2.0", "row_group_size": 2}),
             ("g.parquet", "float32", {"compression": "zstd", "data_page_version": "2.0", "write_page_index": True}),
             ("h.parquet", "float32", {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 1, "compression": "gzip"})]
    rows, number = [], 0
    for name, dtype, options in kinds:
        of_file = []
        for i in range(3):
            latents = values_of(CHANNELS, 2, 2, 2 + 2 * (i % 2)) if i < 2 else values_of(CHANNELS, 2, 4)
            text = values_of(1, 2, TEXT_WIDTH) if i == 1 else values_of(i + 1, TEXT_WIDTH)
            of_file.append(row_of(number, latents, text, dtype, **NO_IMAGE))
            rows.append(expected(latents, text))
            number += 1
        write(OUT / "text" / name, of_file, **options)
    cache = OUT / "text" / "map_style_cache"
    cache.mkdir()
    (cache / "file_info.pkl").write_bytes(b"never read")
    (cache / "old.parquet").write_bytes(b"never read")
    (OUT / "text.json").write_text(json.dumps(rows) + "\n")


def write_image_to_video():
    rows, of_file = [], []
    for i in range(2):
        latents, text, clip, first = values_of(CHANNELS, 2, 2, 2), values_of(2, TEXT_WIDTH), values_of(3, IMAGE_WIDTH), values_of(IMAGE_CHANNELS, 2, 2, 2)
        noise = values_of(CHANNELS, 2, 2, 2)
        of_file.append({**row_of(i, latents, text), **columns_of("clip_feature", clip, "float32"), **columns_of("first_frame_latent", first, "float32"),
                        **columns_of("noise", noise, "float32"), "timestep": 250.5 + i, "pil_image_bytes": b"", "pil_image_shape": [], "pil_image_dtype": ""})
        rows.append(expected(latents, text, image=clip, first_frame=first, noise=noise) | {"timestep": 250.5 + i})
    write(OUT / "image" / "rows.parquet", of_file)
    latents, text, clip, first = values_of(CHANNELS, 1, 2, 2), values_of(2, TEXT_WIDTH), values_of(3, IMAGE_WIDTH), values_of(IMAGE_CHANNELS, 1, 2, 2)
    save_file({"latents": latents.astype(numpy.float16), "text_embedding": text.astype(numpy.float64), "clip_feature": clip, "first_frame_latent": first}, OUT / "image" / "single.safetensors",
              metadata={"latents": "normalized"})
    (OUT / "image" / "single.safetensors").chmod(0o644)
    rows.append(expected(latents, text, image=clip, first_frame=first) | {"normalised": True})
    (OUT / "image.json").write_text(json.dumps(rows) + "\n")


def large_latents(row):
    """[2, 4, 48, 48], 72 KiB, whose values repeat; the same in the test."""
    return ((numpy.arange(2 * 4 * 48 * 48) * 7 + row * 13) % 1009).astype(numpy.float32).reshape(2, 4, 48, 48)


def write_large():
    """Pages that are larger than what decompressors look back."""
    for compression in ("snappy", "lz4"):
        rows = [row_of(i, large_latents(i), values_of(1, TEXT_WIDTH)) for i in range(3)]
        write(OUT / "large" / f"{compression}.parquet", rows, compression=compression)


def write_bad():
    """Files each with a good row and one that cannot be right, by what is wrong with it."""
    def row(**others):
        return {**columns_of("vae_latent", values_of(CHANNELS, 1, 2, 2), "float32"), **columns_of("text_embedding", values_of(1, TEXT_WIDTH), "float32"), **others}

    infinite = values_of(CHANNELS, 1, 2, 2)
    infinite[1, 0, 0, 1] = numpy.inf
    kinds = {"negative_size": row(vae_latent_shape=[CHANNELS, 1, -2, -2]), "zero_size": row(text_embedding_shape=[0, TEXT_WIDTH]), "overflow": row(vae_latent_shape=[CHANNELS, 2**62, 2, 2]),
             "null_shape": row(text_embedding_shape=None), "null_in_shape": row(vae_latent_shape=[CHANNELS, None, 2, 2]), "dtype": row(vae_latent_dtype="int8"), "null_bytes": row(vae_latent_bytes=None),
             "fewer_bytes": row(vae_latent_bytes=bytes(28)), "infinity": row(vae_latent_bytes=infinite.tobytes()), "timestep": row(timestep=1000.5)}
    for name, bad in kinds.items():
        rows = [row(timestep=None), bad] if name == "timestep" else [row(), bad]
        write(OUT / "bad" / f"{name}.parquet", rows, use_dictionary=False, write_statistics=False)
    table = pyarrow.Table.from_pylist([row()])
    for name, columns in {"no_latents": ["vae_latent_bytes"], "no_shape": ["text_embedding_shape"]}.items():
        pyarrow.parquet.write_table(table.drop_columns(columns), OUT / "bad" / f"{name}.parquet", use_dictionary=False, write_statistics=False, store_schema=False)
    pyarrow.parquet.write_table(table.drop_columns(["vae_latent_bytes"]).append_column("vae_latent_bytes", pyarrow.array([[1, 2]])), OUT / "bad" / "lists.parquet", use_dictionary=False,
                                write_statistics=False, store_schema=False)
    pyarrow.parquet.write_table(table, OUT / "bad" / "encoding.parquet", use_dictionary=False, column_encoding={"vae_latent_bytes": "DELTA_LENGTH_BYTE_ARRAY"}, write_statistics=False, store_schema=False)


def write_tables():
    """float32 as torch computes it, operation by operation, and float64."""
    tables = []
    for shift in (1.0, 3.0, 5.0, 12.0):
        x = numpy.linspace(1, 1000, 1000, dtype=numpy.float32)[::-1] / numpy.float32(1000)
        sigmas = numpy.float32(shift) * x / (1 + numpy.float32(shift - 1) * x)
        assert sigmas.dtype == numpy.float32
        x64 = (1000 - numpy.arange(1000)) / 1000
        tables.append({"shift": shift, "sigmas": sigmas.tolist()[::37], "timesteps": (sigmas * numpy.float32(1000)).tolist()[::37],
                       "exact": (shift * x64 / (1 + (shift - 1) * x64)).tolist()[::37]})
    (OUT / "tables.json").write_text(json.dumps(tables) + "\n")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    write_text_to_video()
    write_image_to_video()
    write_large()
    write_bad()
    write_tables()


if __name__ == "__main__":
    main()
