#!/usr/bin/env python3
"""Compares `spillway tokenize` with the `tokenizers` library on many random strings.

For each folder with a tokenizer.json: ids with special tokens, the decoded text, and the text without special tokens.
With --goldens also the small tokenizers of tests/golden/tokenizer, one for each family's pipeline. Exits 1 where
anything differs.

    pip install tokenizers==0.23.3
    python3 tools/compare_tokenizers.py --spillway build/release/bin/spillway --goldens MODEL_FOLDER ...
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from make_tokenizer_goldens import HARD, OUT, made_up_text
from tokenizers import Tokenizer

BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0, 0x24F), (0x250, 0x6FF), (0x900, 0xE7F), (0x1000, 0x1FFF), (0x2000, 0x2BFF),
          (0x3000, 0x9FFF), (0xA000, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x10FFFF)]


def random_string(rng, pieces):
    """Words of many scripts, characters of all planes, hard cases cut and joined, tokens of the vocabulary."""
    kind = rng.random()
    if kind < 0.4:
        return made_up_text(rng)
    if kind < 0.6:
        first, last = rng.choice(BLOCKS)
        return "".join(chr(c) for c in (rng.randint(first, last) for _ in range(rng.randint(1, 20))) if not 0xD800 <= c < 0xE000)
    if kind < 0.75:
        left, right = rng.choice(HARD), rng.choice(HARD)
        return left[: rng.randint(0, len(left))] + right[rng.randint(0, len(right)) :]
    glue = ["", "", " ", "  ", "\n", "\t", "x", "1", "\u0301", "\u4e2d"]
    return "".join(rng.choice(pieces) + rng.choice(glue) for _ in range(rng.randint(1, 8)))


def pieces_of(document):
    added = [token["content"] for token in document.get("added_tokens") or []]
    vocabulary = document["model"]["vocab"]
    tokens = list(vocabulary) if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary]
    tokens = [token.replace("\u0120", " ").replace("\u2581", " ").replace("\u010a", "\n") for token in tokens]
    return tokens + added * max(1, len(tokens) // (4 * len(added) + 1))


def answers(spillway, folder, lines, *options):
    command = [spillway, "tokenize", str(folder), "--lines", str(lines), "--json-lines", *options]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.split("\n")[:-1]]


def differences(spillway, folder, texts, lines):
    """Returns the number of texts that differ; the first few are shown."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    wanted = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    count = 0
    for skips, options in ((False, ()), (True, ("--skip-special",))):
        decoded = tokenizer.decode_batch(wanted, skip_special_tokens=skips)
        for text, ids, plain, got in zip(texts, wanted, decoded, answers(spillway, folder, lines, *options), strict=True):
            if got == {"ids": ids, "text": plain}:
                continue
            count += 1
            if count <= 5:
                print(f"  {text!r}\n    expected {ids} {plain!r}\n    got      {got['ids']} {got['text']!r}")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path, help="folders with a tokenizer.json")
    parser.add_argument("--spillway", default="build/release/bin/spillway", help="the program")
    parser.add_argument("--goldens", action="store_true", help="also the tokenizers of tests/golden/tokenizer")
    parser.add_argument("--count", type=int, default=100_000, help="strings for each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        folders = [(folder.name, folder) for folder in options.folders]
        for path in sorted(OUT.glob("*.json")) if options.goldens else ():
            if path.stem == "texts":
                continue
            folder = pathlib.Path(temporary, path.stem)
            folder.mkdir()
            golden = json.loads(path.read_text(encoding="utf-8"))
            (folder / "tokenizer.json").write_text(json.dumps(golden["tokenizer"]), encoding="utf-8")
            folders.append((path.stem, folder))
        for name, folder in folders:
            rng = random.Random(options.seed)
            pieces = pieces_of(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")))
            texts = [random_string(rng, pieces) for _ in range(options.count)]
            lines = pathlib.Path(temporary, "lines.jsonl")
            lines.write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
            count = differences(options.spillway, folder, texts, lines)
            print(f"{name}: {len(texts)} strings, {count} differences", flush=True)
            bad += count
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
