"""The batches that goldens of tiny models are made of."""

import torch

from golden_model_specs import VOCAB

STEPS = 20


def make_sequence(generator, length, ignored_prefix):
    """Tokens that follow x -> a x + c for one of a few (a, c), so that there is something to learn."""
    a, c = [(1, 1), (1, 3), (5, 2)][int(torch.randint(3, (1,), generator=generator))]
    ids = [int(torch.randint(3, VOCAB, (1,), generator=generator))]
    while len(ids) < length:
        ids.append(3 + (a * ids[-1] + c) % (VOCAB - 3))
    labels = [-100] * ignored_prefix + ids[ignored_prefix:]
    return {"input_ids": ids, "labels": labels}


def make_batches():
    generator = torch.Generator().manual_seed(1)
    # Lengths 14, 1, 9, 5: longer than every window, a sequence without a target, a hole in the labels.
    check = [make_sequence(generator, n, p) for n, p in [(14, 4), (1, 0), (9, 0), (5, 2)]]
    check[2]["labels"][4] = -100
    train = []
    for step in range(STEPS):
        micro_steps = 2 if step % 2 else 1
        train.append([[make_sequence(generator, int(torch.randint(4, 15, (1,), generator=generator)), p)
                       for p in (0, 2, 1)] for _ in range(micro_steps)])
    return {"check": check, "train": train}
