#!/usr/bin/env python3
"""Makes a wheel of an installed Spillway: the program, the libraries that a bare system lacks, and python/spillway_train.

usage: tools/make_wheel.py PREFIX FOLDER [SYSROOT]

PREFIX is what `cmake --install --component program` and `bundled` left; the wheel `spillway-train` goes into FOLDER, or
`spillway-train-cu13` of a program that was built with CUDA, which requires the wheels of NVIDIA's libraries that it opens.
Standard library only. pip lays the program beside its Python's own (`bin/spillway`) and the rest as in PREFIX, so that
no Python runs when `spillway` does. The platform tag names the glibc that the files really want, as in PEP 600. SYSROOT
holds the libraries of another machine's program (docs/install.md, "For 64-bit Arm").
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

NAME, CUDA_NAME = "spillway-train", "spillway-train-cu13"
SUMMARY = "Fine-tunes language models in less memory than they seem to need: a planner and a trainer"
# The libraries that every Linux with that glibc has: the C library's parts, and of gcc's what PEP 600's policies count on.
SYSTEM = re.compile(r"^(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)|linux-vdso)\.so")
# GLIBCXX_3.4.N up to which a manylinux policy counts on libstdc++, and the policy's glibc.
LIBSTDCXX = [(24, (2, 28)), (29, (2, 34)), (30, (2, 35)), (32, (2, 38)), (33, (2, 39)), (10**6, (2, 42))]
# The libraries that are opened only in jobs of several ranks, with the MPI of the system that it runs on.
NEEDS_MPI = "libspillway_mpi.so"
ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "spillway_train"
# A program with CUDA opens these by name (src/backend/cuda/), and these wheels have them. The versions are those of the
# interface: any of them will do, so that pip takes those that PyTorch has in the same environment.
OPENED = {
    "libcublasLt.so.13": "nvidia-cublas >=13,<14",
    "libcudart.so.13": "nvidia-cuda-runtime >=13,<14",
    "libcudnn.so.9": "nvidia-cudnn-cu13 >=9.10.2,<10",
    "libnccl.so.2": "nvidia-nccl-cu13 >=2.27,<3",
    "libnvrtc.so.13": "nvidia-cuda-nvrtc >=13,<14",
}


def fail(message):
    sys.exit(f"[make_wheel] {message}")


def output_of(*command):
    environment = {**os.environ, "LC_ALL": "C"}  # readelf's words
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def machine_of(program):
    """Returns the machine that the program is for, as `uname -m` has it."""
    named = re.search(r"Machine:\s+(.+)", output_of("readelf", "-h", str(program)))[1]
    return {"AArch64": "aarch64", "Advanced Micro Devices X86-64": "x86_64"}.get(named) or fail(
        f"expected a program for x86-64 or 64-bit Arm, got one for {named}"
    )


def needed_libraries(path, folders, found):
    """Adds paths by soname of the libraries that `path` loads, others' included, but for the system's; the first folder's."""
    for soname in re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", output_of("readelf", "-dW", str(path))):
        if soname in found or SYSTEM.match(soname):
            continue
        there = [folder / soname for folder in folders if (folder / soname).exists()]
        if not there:
            fail(f"expected to find {soname}, which {path} needs, got nothing; install it")
        found[soname] = there[0]
        needed_libraries(there[0], folders, found)


def opened_by(program):
    """Returns the wheels of NVIDIA's libraries that the program opens: none, or, built with CUDA, those of all."""
    content = program.read_bytes()
    found = [wheel for library, wheel in OPENED.items() if library.encode() in content]
    if found and len(found) < len(OPENED):
        fail(f"expected {program} to open {', '.join(OPENED)}, got some of them; correct OPENED in {__file__}")
    return found


def glibc_of(paths):
    """The least glibc of a system with all that the files want of the C and the C++ library, as two numbers."""
    newest = (2, 17)  # pip knows no older tag of this kind
    for path in paths:
        wanted = output_of("readelf", "-VW", str(path))
        for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", wanted):
            newest = max(newest, (int(major), int(minor)))
        for version in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", wanted):
            newest = max(newest, next(glibc for limit, glibc in LIBSTDCXX if int(version) <= limit))
    return newest


def licence_of(soname, root):
    """Debian's copyright file of the package that owns a library, by this system's list, with the package's name."""
    for line in subprocess.run(["dpkg-query", "-S", f"*/{soname}"], capture_output=True, text=True).stdout.splitlines():
        package = line.split(":")[0]
        text = root / "usr/share/doc" / package / "copyright"
        if text.exists():
            return package, text.read_bytes()
    fail(f"expected a Debian package that owns {soname}, got none; build the wheel on Debian 12")


def stripped(path, copy, tool):
    copy.write_bytes(path.read_bytes())
    subprocess.run([tool, "--strip-unneeded", str(copy)], check=True)
    return copy


class Wheel:
    """A zip file with its list of contents; the same bytes for the same files."""

    def __init__(self, path, info):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.info = info
        self.record = []
        moment = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # zip begins in 1980
        self.date = time.gmtime(moment)[:6]

    def add(self, name, content, mode=0o644):
        entry = zipfile.ZipInfo(name, self.date)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self):
        name = f"{self.info}/RECORD"
        self.record.append(f"{name},,")
        self.zip.writestr(zipfile.ZipInfo(name, self.date), "\n".join(self.record) + "\n")
        self.zip.close()


def metadata(name, version, required, readme):
    requires = "".join(f"Requires-Dist: {wheel}\n" for wheel in required)
    return f"""Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {SUMMARY}
License: Apache-2.0
Keywords: fine-tuning,LoRA,QLoRA,language models,offloading
Classifier: Environment :: Console
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.9
{requires}Description-Content-Type: text/markdown

{readme}"""


def main(prefix, folder, root):
    program = prefix / "bin" / "spillway"
    if not program.exists():
        fail(f"expected {program}, got none; run tools/make_packages wheel")
    machine = machine_of(program)
    is_foreign = machine != os.uname().machine
    emulator = ["qemu-aarch64", "-L", str(root)] if is_foreign else []
    version = output_of(*emulator, str(program), "--version").split()[1]
    if f'__version__ = "{version}"' not in (PACKAGE / "__init__.py").read_text():
        fail(f"expected __version__ {version} in {PACKAGE}/__init__.py, got another; correct it")
    required = opened_by(program)
    private = prefix / "lib" / "spillway"
    own = [path for path in sorted(private.iterdir()) if path.is_file() and is_elf(path)]

    # By soname; the links that Debian has beside them are of no use here.
    libraries = {}
    folders = [private, *(root / place / f"{machine}-linux-gnu" for place in ("usr/lib", "lib")), root / "usr/lib", root / "lib"]
    for path in [program, *own]:
        if path.name != NEEDS_MPI:
            needed_libraries(path, folders, libraries)
    for path in own:
        if path.name.startswith("libspillway_"):
            libraries[path.name] = path
    folder.mkdir(parents=True, exist_ok=True)
    room = tempfile.TemporaryDirectory()
    work = Path(room.name)
    strip = f"{machine}-linux-gnu-strip" if is_foreign else "strip"
    files = {name: stripped(path, work / name, strip) for name, path in libraries.items()}
    glibc = glibc_of([program, *files.values()])
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{machine}"

    name = CUDA_NAME if required else NAME
    stem = f"{name.replace('-', '_')}-{version}"
    info, data = f"{stem}.dist-info", f"{stem}.data"
    path = folder / f"{stem}-{tag}.whl"
    partial = path.with_suffix(".partial")  # a wheel under its own name is complete
    wheel = Wheel(partial, info)
    for file in [*sorted(PACKAGE.glob("*.py")), PACKAGE / "py.typed"]:
        wheel.add(f"{PACKAGE.name}/{file.name}", file.read_bytes())
    wheel.add(f"{data}/scripts/spillway", program.read_bytes(), 0o755)
    for library, file in sorted(files.items()):
        wheel.add(f"{data}/data/lib/spillway/{library}", file.read_bytes(), 0o755)
    for file in sorted((prefix / "share").rglob("*")):
        if file.is_file() and "licences" not in file.parts:
            wheel.add(f"{data}/data/{file.relative_to(prefix)}", file.read_bytes())
    licences = {file.name: file.read_bytes() for file in (prefix / "share/doc/spillway/licences").iterdir()}
    for soname, library in libraries.items():
        if private not in library.parents:
            package, text = licence_of(soname, root)
            licences[package] = text
    for package, text in sorted(licences.items()):
        wheel.add(f"{info}/licenses/{package}", text)
    documentation = prefix / "share/doc/spillway"
    wheel.add(f"{info}/licenses/LICENSE", (documentation / "LICENSE").read_bytes())
    wheel.add(f"{info}/METADATA", metadata(name, version, required, (documentation / "README.md").read_text()).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: make_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.close()
    partial.rename(path)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        fail("expected PREFIX FOLDER [SYSROOT]; see the head of this file")
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3] if len(sys.argv) > 3 else "/").resolve())
