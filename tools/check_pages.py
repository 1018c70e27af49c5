#!/usr/bin/env python3
"""Runs the commands that pages show with what they print, and compares that with what they print now.

usage: tools/check_pages.py [PAGE.md ...] [--command PART] [--print]
Without a page: all of PAGES. --command: only commands that contain PART, behind what the page needs for them. --print: prints
the whole output of commands that differ. Exit status 1 where a page differs. Wants ./quickstart to have run (program, model and
data); SPILLWAY names another program than build/release/bin/spillway. With everything it takes some half an hour on two cores.

A command stands in a block of code behind "$ ", and the lines below it are what it prints, in this order; lines between them and
what "..." stands for may be left out. A line may be broken where the page is narrower than the output. What a machine decides
(seconds, rates, its name) may be any other; what a program that is asked about a described machine prints (--gpu, --machine)
may not. Losses, and what follows from them, may differ by a share that other instructions explain.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPILLWAY = os.environ.get("SPILLWAY", os.path.join(ROOT, "build", "release", "bin", "spillway"))
# The files that commands read, by their paths in the repository.
INPUTS = ("examples", "machines", "models", "tools", "outputs/quickstart/data")
# Bits of bf16 depend on the instructions that a CPU has, and losses of few tokens show it.
LOSS_SHARE = 0.04
SMALL_LOSS = 0.01
# The parts of a line that a machine decides: its name, its memory, seconds, rates, and what plans take by these; and the share of a few
# tokens that bits of bf16 make right.
OF_MACHINE = [r"\b(AMD|Intel|Arm|Ampere)\b[^,]*, \d+ cores", r"\d+:\d\d left", r"[\d.]+ (s|ms|tokens/s|patches/s)(?![\w/])",
              r"(?<=^device) +[\d.]+ GiB( +[\d.]+ MiB)?", r"[\d.]+ MiB(?= (planned|measured))", r"(?<=^host) +[\d.]+ GiB(?= )", r"(?<=process) +[\d.]+ MiB", r"(?<=token_accuracy) [\d.]+ %", r"[\d.]+ MiB(?= outside the arenas)"]
# And what plans make of these: treatments of layers, the frontier, what would fit.
LINES_OF_MACHINE = re.compile(r"(layers|frontier:|What would fit:)? +(\d+(-\d+)? +(attention|activations|product|elementwise|weights|\d+ of)|[\d.]+ [MG]iB +\d|memory\.)|frontier:|What would fit:")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass
class Page:
    """The things that a page needs, and which of its commands are left out."""

    files: dict = field(default_factory=dict)  # by name: the words before the block of the page that holds it
    before: list = field(default_factory=list)  # commands that the page tells to run elsewhere, before the first that is shown
    left_out: dict = field(default_factory=dict)  # by a part of the command: why its output is not compared


PAGES = {
    "docs/configs-you-have.md": Page(),
    "docs/will-it-fit.md": Page(),
    "docs/tutorials/qwen3-8b-12gb.md": Page(files={"chats.yml": "of your own it becomes:"}),
    "docs/tutorials/laptop.md": Page(
        files={"orders.yml": "`orders.yml`, with axolotl's keys:"},
        before=["spillway train orders.yml"],
        left_out={"--memory.device 250MiB": "the fastest plan depends on how fast the machine computes and moves",
                  "sha256sum": "bits depend on the instructions of the CPU"}),
}


@dataclass
class Shown:
    """A command of a page with the lines below it."""

    line: int
    command: str
    output: list


def blocks(text):
    """Yields (line number, lines) of the indented blocks of code of a page."""
    block, begin = [], 0
    for number, line in enumerate(text.split("\n") + ["end"], 1):
        if line.startswith("    "):
            if not block:
                begin = number
            block.append(line[4:])
        elif block and not line.strip():
            block.append("")
        elif block:
            yield begin, block
            block = []


def commands(text):
    """Returns what a page shows."""
    result = []
    for begin, lines in blocks(text):
        for offset, line in enumerate(lines):
            if line.startswith("$ "):
                result.append(Shown(begin + offset, line[2:], []))
            elif result and result[-1].line >= begin:
                result[-1].output.append(line)
    return result


def block_behind(text, words):
    """Returns the block of code behind these words."""
    at = text.index(words) + len(words)
    return "\n".join(next(blocks(text[at:]))[1]).rstrip() + "\n"


def is_of_described_machine(command):
    return "--gpu" in command or "--machine" in command


def tokens(text, any_machine):
    """Returns the words of a text, without the commas behind them, and with a star for what any machine may decide."""
    for pattern in OF_MACHINE if any_machine else []:
        text = re.sub(pattern, " * ", text, flags=re.MULTILINE)
    return [word.rstrip(",;") for word in text.split()]


def is_same(expected, actual, share):
    """Returns true if two words are equal but for numbers with decimals, which may differ by a share, and by that of SMALL_LOSS."""
    if expected == actual:
        return True
    if not share or NUMBER.sub("#", expected) != NUMBER.sub("#", actual):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(actual))
    return all(a == b or ("." in a and abs(float(a) - float(b)) <= share * max(abs(float(a)), SMALL_LOSS)) for a, b in pairs)


def find(wanted, words, begin, share):
    """Returns the index behind the first place from `begin` on where the words stand one after the other, or None."""
    for at in range(begin, len(words) - len(wanted) + 1):
        if all(is_same(a, b, share) for a, b in zip(wanted, words[at:])):
            return at + len(wanted)
    return None


def missing_lines(shown, output, share):
    """Returns the lines of a page that the output does not have behind those before them."""
    any_machine = not is_of_described_machine(shown.command)
    words, at, missing = tokens(output, any_machine), 0, []
    for line in shown.output:
        if any_machine and LINES_OF_MACHINE.match(line):
            continue
        for part in line.split("..."):
            wanted = tokens(part, any_machine)
            end = find(wanted, words, at, share)
            if end is None:
                missing.append(line.strip())
                break
            at = end
    return missing


def run(command, typed, folder):
    """Returns (exit status, everything that a command prints)."""
    path = os.pathsep.join((os.path.dirname(os.path.abspath(SPILLWAY)), os.environ["PATH"]))
    done = subprocess.run(["bash", "-c", command], cwd=folder, input="\n".join(typed), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "PATH": path}, check=False)
    return done.returncode, done.stdout


def prepare(folder, page, text):
    """Lays out what the commands of a page read."""
    for name in INPUTS:
        source, target = os.path.join(ROOT, name), os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.exists(source):
            os.symlink(source, target)
    for name, words in page.files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(block_behind(text, words))


def check(path, page, part, prints):
    """Checks one page; returns how many commands differ."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    chosen = [shown for shown in commands(text) if part in shown.command]
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder, page, text)
        for command in page.before if chosen else []:
            status, output = run(command, [], folder)
            if status:
                sys.exit(f"[{path}: {command}] expected exit status 0, got {status}; {output.strip().splitlines()[-1]}")
        for shown in chosen:
            typed = [line[2:] for line in shown.output if line.startswith("> ")]
            shown.output = [line for line in shown.output if line.strip() and not line.startswith("> ")]
            reason = next((why for words, why in page.left_out.items() if words in shown.command), None)
            if reason:
                print(f"{path}:{shown.line}: not compared: {shlex.split(shown.command)[0]} ...: {reason}", flush=True)
                continue
            status, output = run(shown.command, typed, folder)
            share = 0 if is_of_described_machine(shown.command) else LOSS_SHARE
            missing = missing_lines(shown, output, share)
            if status and not shown.output:
                missing = [f"exit status 0, but {status}"]
            differing += bool(missing)
            print(f"{path}:{shown.line}: {'differs' if missing else 'as shown'}: {shown.command}", flush=True)
            for line in missing:
                print(f"    not printed: {line}")
            if missing and prints:
                print("\n".join(f"    | {line}" for line in output.splitlines()))
    return differing


def main():
    parser = argparse.ArgumentParser(description="Runs the commands that pages show, and compares what they print.")
    parser.add_argument("pages", nargs="*", metavar="PAGE.md")
    parser.add_argument("--command", default="", metavar="PART", help="only commands that contain this")
    parser.add_argument("--print", action="store_true", help="print the whole output of commands that differ")
    arguments = parser.parse_args()
    if unknown := set(arguments.pages) - set(PAGES):
        sys.exit(f"[check_pages] expected some of {', '.join(PAGES)}, got {', '.join(sorted(unknown))}; name those")
    if not os.path.exists(SPILLWAY):
        sys.exit(f"[check_pages] expected the program in {SPILLWAY}, got none; run tools/build release spillway")
    names = arguments.pages or PAGES
    differing = sum(check(path, PAGES[path], arguments.command, arguments.print) for path in names)
    print(f"{differing} commands print something else than their pages show" if differing else "pages show what commands print")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
