#!/usr/bin/env python3
"""Makes the data of examples/grpo.yml and ppo.yml: the hundred sums of two numbers from 0 to 9, some of them kept from training.

    {"prompt": [{"role": "user", "content": "What is 3 + 5?"}], "answer": 8}

A sum and the one with its numbers exchanged stay together, so no held-out sum is in training in either order.

usage: tools/make_grpo_example_data.py FOLDER [--seed N]
writes FOLDER/sums_train.jsonl     80 rows, shuffled
       FOLDER/sums_held_out.jsonl  20 rows: nine pairs in both orders, and two doubles
"""

import argparse
import json
import os
import random

HELD_OUT_PAIRS, HELD_OUT_DOUBLES = 9, 2


def split(rng):
    """(training sums, held-out sums), each a list of (a, b)."""
    pairs = [(a, b) for a in range(10) for b in range(a + 1, 10)]
    doubles = [(a, a) for a in range(10)]
    held_out = set(rng.sample(doubles, HELD_OUT_DOUBLES))
    for a, b in rng.sample(pairs, HELD_OUT_PAIRS):
        held_out |= {(a, b), (b, a)}
    train = [(a, b) for a in range(10) for b in range(10) if (a, b) not in held_out]
    rng.shuffle(train)
    return train, sorted(held_out)


def write(path, sums):
    with open(path, "w", encoding="utf-8") as file:
        for a, b in sums:
            file.write(json.dumps({"prompt": [{"role": "user", "content": f"What is {a} + {b}?"}], "answer": a + b}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    train, held_out = split(random.Random(args.seed))
    write(os.path.join(args.folder, "sums_train.jsonl"), train)
    write(os.path.join(args.folder, "sums_held_out.jsonl"), held_out)


if __name__ == "__main__":
    main()
