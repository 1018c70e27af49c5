#!/usr/bin/env python3
"""Finds kernels that nvcc has compiled into a trap which their sources do not ask for.

nvcc does so, without a word, where a function that is constexpr and not __device__ needs the address of a constant of the
host: std::max(kConstant, x) takes a reference to it. On a GPU such a kernel ends in 'unspecified launch failure'; neither
the build nor the emulation shows it. A file whose kernels may trap names cuda::require(), itself or in a .cuh that it
includes.

Needs a build with CUDA, and cuobjdump and nvdisasm on PATH (the CUDA toolkit's, or the PyPI packages nvidia-cuda-cuobjdump
and nvidia-cuda-nvdisasm).

usage: tools/check_kernel_traps.py build/cuda        prints `file.cu: kernel` for each; exit status 1 if there is one
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SRC = os.path.join(ROOT, "src")
INCLUDE = re.compile(r'^#include "([^"]+\.cuh)"', re.MULTILINE)
EVENT = re.compile(r"Function : (\S+)|(BPT\.TRAP)")


def may_trap(path):
    """Returns true if a CUDA file, or a .cuh below it, calls cuda::require()."""
    with open(os.path.join(SRC, path), encoding="utf-8") as file:
        text = file.read()
    return "cuda::require(" in text or any(may_trap(other) for other in INCLUDE.findall(text))


def kernels_with_traps(path):
    sass = subprocess.run(["cuobjdump", "-sass", path], check=True, capture_output=True, text=True).stdout
    found, kernel = [], ""
    for name, trap in EVENT.findall(sass):
        kernel = name or kernel
        if trap and kernel not in found:
            found.append(kernel)
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for tool in ("cuobjdump", "nvdisasm"):
        if shutil.which(tool) is None:
            sys.exit(f"[check_kernel_traps] expected {tool} on PATH, got none; install nvidia-cuda-{tool} from PyPI")
    objects = {}
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            path = os.path.join(folder, name)
            _, dir_mark, source = path.partition(".dir/")
            if dir_mark and name.endswith(".cu.o"):
                objects[source.removesuffix(".o")] = path
    if not objects:
        sys.exit(f"[check_kernel_traps] expected .cu.o files below {sys.argv[1]}, got none; run tools/build cuda")
    suspects = sorted(source for source in objects if not may_trap(source))
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda source: kernels_with_traps(objects[source]), suspects))
    breaches = [f"{source}: {kernel}" for source, kernels in zip(suspects, found) for kernel in kernels]
    print("\n".join(breaches) or f"no kernel of {len(suspects)} files traps unasked")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
