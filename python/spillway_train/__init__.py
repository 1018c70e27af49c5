"""Spillway from Python: plans, trains, generates and serves by the program that this package brings.

    import spillway_train as st

    print(st.plan("config.yml", memory={"device": "6GiB"}))
    run = st.train("config.yml", learning_rate=1e-4)
    for line in run.metrics():
        print(line["step"], line.get("loss"))

Nothing is trained in Python: every call starts the program, and reads the JSON that it prints. Only the standard library
is needed. docs/python.md is the manual.
"""

import sys

if sys.version_info < (3, 9):  # before anything that an older one could not read
    raise ImportError(
        "[spillway_train] expected Python 3.9 or newer, got %d.%d; start a newer one, or the program `spillway` itself, "
        "which needs none" % sys.version_info[:2]
    )

from ._generate import Generation, generate
from ._plan import Fit, Plan, Tier, fit, plan
from ._program import InputError, MachineError, SpillwayError, program, warn_of_two_wheels
from ._serve import Server
from ._train import Run, train

warn_of_two_wheels()

__version__ = "0.1.0"  # the program's; tools/make_wheel.py compares them
__all__ = [
    "Fit",
    "Generation",
    "InputError",
    "MachineError",
    "Plan",
    "Run",
    "Server",
    "SpillwayError",
    "Tier",
    "fit",
    "generate",
    "plan",
    "program",
    "train",
]
