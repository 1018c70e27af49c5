#!/usr/bin/env python3
"""Makes a tarball of a wheel's files, for systems without pip: unpack it anywhere, and run bin/spillway.

usage: tools/make_tarball.py WHEEL FOLDER

spillway-VERSION-linux-MACHINE.tar.gz goes into FOLDER, the same bytes for the same wheel. Standard library only.
"""

import gzip
import os
import re
import sys
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path


def fail(message):
    sys.exit(f"[make_tarball] {message}")


def place_of(name):
    """Returns where a file of the wheel lies below the tarball's folder, or None for what only pip and Python want."""
    for pattern, place in (
        (r"[^/]+\.data/scripts/(.+)", r"bin/\1"),
        (r"[^/]+\.data/data/(.+)", r"\1"),
        (r"[^/]+\.dist-info/licenses/LICENSE", "LICENSE"),
        (r"[^/]+\.dist-info/licenses/(.+)", r"share/doc/spillway/licences/\1"),
    ):
        if re.fullmatch(pattern, name):
            return re.sub(pattern, place, name)
    return None


def main(wheel, folder):
    named = re.fullmatch(r"spillway_train-([^-]+)-py3-none-manylinux_\d+_\d+_(.+)\.whl", wheel.name)
    if not named:
        fail(f"expected a wheel of tools/make_packages, got {wheel}; name that one")
    top = f"spillway-{named[1]}-linux-{named[2]}"
    path = folder / f"{top}.tar.gz"
    partial = path.with_suffix(".partial")  # a tarball under its own name is complete
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    with zipfile.ZipFile(wheel) as files, open(partial, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tarball:
            for file in sorted(files.infolist(), key=lambda one: one.filename):
                place = place_of(file.filename)
                if not place:
                    continue
                entry = tarfile.TarInfo(f"{top}/{place}")
                entry.size, entry.mtime, entry.mode = file.file_size, moment, file.external_attr >> 16 & 0o777 or 0o644
                tarball.addfile(entry, BytesIO(files.read(file)))
    partial.rename(path)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        fail("expected WHEEL FOLDER; see the head of this file")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
