#!/usr/bin/env python3
"""Writes tests/golden/rewards/: what TRL's reward functions say, and advantages as its trainers compute them.

    pip install -r bench/peers/requirements.txt math-verify && tools/make_reward_goldens.py
"""

import json
import os

import torch
from trl.rewards import (accuracy_reward, get_cosine_scaled_reward, get_repetition_penalty_reward,
                         get_soft_overlong_punishment, reasoning_accuracy_reward, think_format_reward)
from trl.trainer.utils import nanstd

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "rewards")
GROUP = 4

TEXTS = ["<think>a</think>b", "<think>a\nb</think>\nc", "x<think>a</think>", "<think>a<think>b</think>", "<think>a",
         "</think><think>", "<think></think>", "<think>\n<think>\n</think>", "<think>a</think></think>", "",
         "<think>é</think>答", "\n<think>a</think>", "<think>a</think><think>b</think>", "<Think>a</Think>"]
SOLUTIONS = [r"\frac{1}{3}", "7", r"$x^2$", "", "no answer in here", r"\boxed{0.5}"]
ANSWERS = [r"\boxed{\frac{1}{3}}", r"It is \boxed{7}.", "7", r"$x^2$", r"\boxed{\frac12}", "nothing",
           r"<think>\boxed{7}</think> \boxed{8}", r"<think>a</think> \boxed{7}", r"a </think> b </think> $\frac{1}{3}$"]


def finite(values):
    return [None if value != value else value for value in values]


def ids_of_lengths(lengths, vocabulary):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, vocabulary, (length,), generator=generator).tolist() for length in lengths]


def record_functions():
    messages = [[{"role": "assistant", "content": text}] for text in TEXTS]
    functions = [{"entry": {"name": "think_format_reward"}, "completions": TEXTS,
                  "rewards": think_format_reward(messages)}]
    lengths = [0, 1, 2, 3, 4, 11, 12, 13, 20, 23, 24, 25, 40]
    for arguments in ({"max_completion_len": 24, "soft_punish_cache": 12}, {"max_completion_len": 12, "soft_punish_cache": 0}):
        ids = ids_of_lengths(lengths, 100)
        functions.append({"entry": {"name": "get_soft_overlong_punishment", **arguments}, "completion_ids": ids,
                          "rewards": get_soft_overlong_punishment(**arguments)(ids)})
    for arguments in ({}, {"ngram_size": 1, "max_penalty": -0.5}, {"ngram_size": 2}):
        ids = ids_of_lengths(lengths, 3)
        functions.append({"entry": {"name": "get_repetition_penalty_reward", **arguments}, "completion_ids": ids,
                          "rewards": get_repetition_penalty_reward(**arguments)(ids)})
    completions = [answer for answer in ANSWERS for _ in SOLUTIONS]
    solution = SOLUTIONS * len(ANSWERS)
    messages = [[{"role": "assistant", "content": text}] for text in completions]
    for name, function in (("accuracy_reward", accuracy_reward), ("reasoning_accuracy_reward", reasoning_accuracy_reward)):
        extra = {}
        rewards = function(messages, solution, log_extra=lambda column, values: extra.update({column: values}))
        functions.append({"entry": {"name": name}, "completions": completions, "solution": solution, "rewards": rewards,
                          "extra": extra})
    for arguments in ({"max_len": 20}, {"max_len": 40, "min_value_wrong": -2.0, "max_value_correct": 3.0}):
        ids = ids_of_lengths([i % 45 for i in range(len(completions))], 100)
        functions.append({"entry": {"name": "get_cosine_scaled_reward", **arguments}, "completions": completions,
                          "solution": solution, "completion_ids": ids,
                          "rewards": get_cosine_scaled_reward(**arguments)(messages, solution, completion_ids=ids)})
    return functions


def summed(rewards, weights):
    total = (rewards * weights).nansum(dim=1)
    total[torch.isnan(rewards).all(dim=1)] = torch.nan
    return total


def is_zero(std):
    return torch.isclose(std, torch.zeros_like(std)).float().mean().item()


def grouped_advantages(rewards, weights, scale):
    """GRPOTrainer, multi_objective_aggregation sum_then_normalize."""
    total = summed(rewards, weights)
    groups = total.view(-1, GROUP)
    distance = groups - groups.nanmean(dim=1, keepdim=True)
    std = nanstd(total).expand_as(groups) if scale == "batch" else nanstd(groups, dim=1, keepdim=True)
    if scale != "none":
        distance = distance / (std + 1e-4)
    return distance.flatten().nan_to_num(nan=0.0), is_zero(std)


def gdpo_advantages(rewards, weights):
    """GRPOTrainer, multi_objective_aggregation normalize_then_sum."""
    groups = rewards.view(-1, GROUP, rewards.shape[1])
    normal = (groups - groups.nanmean(dim=1, keepdim=True)) / (nanstd(groups, dim=1, keepdim=True) + 1e-4)
    total = (normal.view_as(rewards) * weights).nansum(dim=1)
    total[torch.isnan(rewards).all(dim=1)] = torch.nan
    std = nanstd(total)
    return ((total - total.nanmean()) / (std + 1e-4)).nan_to_num(nan=0.0), is_zero(std)


def leave_one_out_advantages(rewards, weights, clip_range, beta, kl, normalize):
    """RLOOTrainer."""
    total = summed(rewards, weights)
    if clip_range:
        total = total.clamp(*clip_range)
    total = total - beta * kl
    groups = total.view(-1, GROUP)
    others = (~groups.isnan()).sum(dim=1, keepdim=True) - 1
    advantages = (groups - (groups.nansum(dim=1, keepdim=True) - groups) / others).flatten()
    if normalize:
        advantages = (advantages - advantages.nanmean()) / (nanstd(advantages) + 1e-4)
    return advantages.nan_to_num(nan=0.0), is_zero(nanstd(groups, dim=1))


def record_round(rewards, weights, kl):
    weights_tensor = torch.tensor(weights)
    total = summed(rewards, weights_tensor)
    metrics = [nanstd(total).item(), *(nanstd(column).item() for column in rewards.T)]
    means = [total.nanmean().item(), *(column.nanmean().item() for column in rewards.T)]
    cases = []
    for scale in ("group", "batch", "none"):
        values, zero = grouped_advantages(rewards, weights_tensor, scale)
        cases.append({"scale": scale, "advantages": values.tolist(), "frac_reward_zero_std": zero})
    values, zero = gdpo_advantages(rewards, weights_tensor)
    cases.append({"aggregation": "normalize_then_sum", "advantages": values.tolist(), "frac_reward_zero_std": zero})
    for clip_range, beta, normalize in ((None, 0.0, False), ((-0.5, 0.75), 0.05, False), (None, 0.05, True)):
        values, zero = leave_one_out_advantages(rewards, weights_tensor, clip_range, beta, kl, normalize)
        cases.append({"rloo": True, "clip_range": clip_range, "beta": beta, "normalize": normalize,
                      "advantages": values.tolist(), "frac_reward_zero_std": zero})
    return {"rewards": [finite(row) for row in rewards.tolist()], "weights": weights, "kl": kl.tolist(),
            "sums": finite(total.tolist()), "mean": finite(means), "std": finite(metrics), "cases": cases}


def record_advantages():
    generator = torch.Generator().manual_seed(5)
    normal = lambda *shape: torch.randn(shape, generator=generator)
    nan = torch.nan
    rounds = [record_round(normal(16, 3), [1.0, 0.5, -0.25], normal(16))]
    some = normal(24, 2)
    some[torch.rand(24, 2, generator=generator) < 0.4] = nan  # functions that do not apply, completions without any
    some[:4] = 1.0  # a group of one value
    some[4:8] = nan  # a group of none
    some[8:11] = nan  # a group with one that counts
    rounds.append(record_round(some, [1.0, 2.0], normal(24)))
    rounds.append(record_round(torch.ones(8, 1), [1.0], torch.zeros(8)))
    rounds.append(record_round(torch.full((8, 1), nan), [1.0], torch.zeros(8)))
    rounds.append(record_round(torch.tensor([[0.0], [1.0], [1.0], [0.0], [1.0], [1.0], [1.0], [1.0]]), [1.0],
                               torch.zeros(8)))
    return rounds


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, content in (("functions", record_functions()), ("advantages", record_advantages())):
        with open(os.path.join(FOLDER, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, allow_nan=False)
            file.write("\n")


main()
