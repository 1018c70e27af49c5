"""The picture of what a model learns by its own answers: the mean reward of each round, and that of prompts held out."""

import json
import os

from pictures import svg

WIDTH, LEFT, RIGHT, TOP, HEIGHT = 760, 64, 24, 52, 210


def curves(folder):
    """Returns ([(step, reward), ...] of the rounds, the same of evaluations) of an output folder."""
    rounds, held_out = [], []
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        for line in map(json.loads, file):
            if "reward" in line:
                rounds.append((line["step"], line["reward"]))
            if "eval_reward" in line:
                held_out.append((line["step"], line["eval_reward"]))
    return rounds, held_out


def draw(folder, title):
    """Returns the picture of the output folder of a run with evaluations."""
    rounds, held_out = curves(folder)
    steps = max(step for step, _ in rounds)
    rewards = [reward for _, reward in rounds + held_out]
    low, high = min(0.0, *rewards), max(1.0, *rewards)
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / steps
    y = lambda reward: TOP + HEIGHT * (high - reward) / (high - low)
    body = [svg.text(LEFT, 30, title, class_="strong")]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        body += [svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"), svg.text(LEFT - 10, y(tick) + 5, f"{tick:g}", text_anchor="end")]
    every = max(1, steps // 6)
    for step in range(0, steps + 1, every):
        body.append(svg.text(x(step), TOP + HEIGHT + 22, f"step {step}", text_anchor="end" if step == steps else "middle"))
    path = "".join(f"{'L' if i else 'M'}{x(step):.1f},{y(reward):.1f}" for i, (step, reward) in enumerate(rounds))
    body.append(svg.element("path", {"d": path, "fill": "none", "stroke": "var(--accent)", "stroke_width": 2.5}))
    for step, reward in held_out:
        body += [svg.element("circle", {"cx": x(step), "cy": y(reward), "r": 5.5, "fill": "var(--gradient)"}),
                 svg.text(x(step) - 10, y(reward) - 8, f"{reward:.2f}", text_anchor="end", class_="ink")]
    swatches, below = svg.legend(LEFT, TOP + HEIGHT + 54, [("accent", "64 answers of each step"), ("gradient", "sums that are not in training")],
                                 WIDTH - RIGHT)
    return svg.document(WIDTH, int(below), title, f"Held-out prompts: {held_out[0][1]:.2f} after {held_out[0][0]} steps, "
                        f"{held_out[-1][1]:.2f} after {held_out[-1][0]}.", "".join([*body, swatches]))
