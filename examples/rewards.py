"""Reward functions of examples/grpo.yml. Try them on completions that exist:

    cd examples && spillway rewards rewards.yml --lines data/sums.jsonl --json-lines
"""

import re


def right_sum(completions, answer, **_):
    """1 if the last number of the reply is the sum that the column `answer` has."""
    rewards = []
    for completion, wanted in zip(completions, answer):
        reply = completion if isinstance(completion, str) else completion[-1]["content"]
        numbers = re.findall(r"-?\d+", reply)
        rewards.append(1.0 if numbers and int(numbers[-1]) == int(wanted) else 0.0)
    return rewards
