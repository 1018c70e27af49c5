#!/usr/bin/env python3
"""Runs the code of a notebook from top to bottom in the current folder, without Jupyter, and prints what its cells show.

usage: tools/run_notebook.py NOTEBOOK.ipynb
Lines of IPython alone (%magic, !command) are not understood. Exit status 1 where a cell raises.
"""

import ast
import json
import sys


def shown(value):
    """Returns what a notebook would show of a cell's last expression."""
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


def run_cell(source, name, names):
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last:
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is not None:
            print(shown(value), flush=True)


def main(path):
    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            run_cell("".join(cell["source"]), f"{path}, cell {number}", names)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("[run_notebook] expected NOTEBOOK.ipynb; see the head of this file")
    main(sys.argv[1])
