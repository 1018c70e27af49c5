"""Runs the program that this package brings: `python -m spillway_train ARGUMENT...`."""

import os
import sys

from ._program import SpillwayError, program

try:
    path = program()
except SpillwayError as error:
    sys.exit(str(error))
os.execv(path, [path, *sys.argv[1:]])
