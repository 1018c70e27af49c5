"""Reads what pictures take out of report.json, or out of the page that `spillway plan --html` writes, which holds the same."""

import json
import re

# From the bottom of a stack upwards, as on the page: what stays first, what comes and goes last.
STACK = {
    "frozen_weight": "frozen weights", "trainable_weight": "trainable weights", "optimizer_state": "optimizer state",
    "gradient": "gradients", "cache": "cache", "batch": "batch", "saved_activation": "saved activations",
    "transient": "working memory",
}
LANES = ["compute", "host_to_device", "device_to_host", "disk_read", "disk_write", "host_compute", "peer"]
WORK = ["forward", "backward", "recompute", "update"]  # classes of timeline.instructions behind those of memory
KINDS = ["frozen_weight", "trainable_weight", "optimizer_state", "gradient", "saved_activation", "transient", "batch",
         "cache"]


def load(path):
    with open(path, encoding="utf-8") as file:
        content = file.read()
    if path.endswith(".html"):
        content = re.search(r'<script[^>]*id="report"[^>]*>(.*?)</script>', content, re.DOTALL).group(1)
    return json.loads(content)


def class_name(index):
    return KINDS[index] if index < len(KINDS) else WORK[index - len(KINDS)]


def clock(report):
    return "measured" if report["timeline"]["measured"] else "predicted"


def phases(report):
    """Returns {"forward": (start, end), ...} in shares of the step, of the computing lane."""
    timeline = report["timeline"]
    times, unit = timeline[clock(report)], timeline["unit_seconds"] / timeline[clock(report)]["seconds"]
    spans = {}
    for i, (lane, index, *_) in enumerate(timeline["instructions"]):
        name = class_name(index)
        if LANES[lane] == "compute" and name in ("forward", "backward", "update"):
            start, end = spans.get(name, (1.0, 0.0))
            spans[name] = (min(start, times["start"][i] * unit), max(end, (times["start"][i] + times["duration"][i]) * unit))
    return spans
