"""The picture of memory over one step: the same job without a limit and under a budget, on one scale."""

import hashlib
import os

from pictures import report as reports
from pictures import svg

WIDTH, LEFT, RIGHT, GAP = 760, 88, 20, 28
PANEL = (WIDTH - LEFT - RIGHT - GAP) / 2
PIXELS_PER_GIB = 54.0
COLUMNS = 160


def columns(curve, clock, seconds):
    """Returns (share of the step, {kind: bytes}) of at most COLUMNS moments: of each column the one that holds the most."""
    times, kinds = curve[f"{clock}_seconds"], curve["kinds"]
    best = {}
    for i, time in enumerate(times):
        column = min(COLUMNS - 1, int(COLUMNS * time / seconds))
        total = sum(values[i] for values in kinds.values())
        if column not in best or total > best[column][0]:
            best[column] = (total, i)
    moments = []
    for column, (_, i) in sorted(best.items()):
        held = {kind: values[i] for kind, values in kinds.items()}
        if not moments or any(abs(held[kind] - bytes_) > 2**18 for kind, bytes_ in moments[-1][1].items()):
            moments.append((column / COLUMNS, held))
    return moments


def areas(moments, x, base):
    """Returns the kinds stacked upon `base`, each a path with a step at each moment."""
    edges = [share for share, _ in moments] + [1.0]
    below, parts = [0] * len(moments), []
    for kind in reports.STACK:
        above = [bytes_ + held.get(kind, 0) for bytes_, (_, held) in zip(below, moments)]
        if above == below:
            continue
        up = "".join(f"{'L' if i else 'M'}{x(edges[i]):.1f},{base - v * PIXELS_PER_GIB / 2**30:.1f}H{x(edges[i + 1]):.1f}"
                     for i, v in enumerate(above))
        down = "".join(f"L{x(edges[i + 1]):.1f},{base - v * PIXELS_PER_GIB / 2**30:.1f}H{x(edges[i]):.1f}"
                       for i, v in reversed(list(enumerate(below))))
        parts.append(svg.element("path", {"d": up + down + "Z", "fill": f"var(--{kind})"}))
        below = above
    return "".join(parts)


def axis(base, gib, words):
    parts = [svg.text(LEFT - 8, base - gib * PIXELS_PER_GIB - 6, words, text_anchor="end", class_="strong")]
    for tick in range(int(gib) + 1):
        y = base - tick * PIXELS_PER_GIB
        parts += [svg.line(LEFT, y, WIDTH - RIGHT, y, "grid"),
                  svg.text(LEFT - 8, y + 5, f"{tick} GiB" if tick else "0", text_anchor="end")]
    return "".join(parts)


def same_weights(folders):
    """Returns the SHA-256 that the models of all folders share. Raises where they differ."""
    found = set()
    for folder in folders:
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            found.add(hashlib.file_digest(file, "sha256").hexdigest())
    if len(found) != 1:
        raise SystemExit(f"[{', '.join(folders)}] expected the same weights, got {', '.join(sorted(found))}")
    return found.pop()


def panel(report, left, memory_base, disk_base, heading):
    clock = reports.clock(report)
    seconds = report["timeline"][clock]["seconds"]
    x = lambda share: left + PANEL * share
    parts = [svg.text(left, 28, heading, class_="strong")]
    for tier, base in (("device", memory_base), ("disk", disk_base)):
        curve, numbers = report["memory_over_step"].get(tier), report["tiers"][tier]
        if not curve or not numbers["measured_peak_bytes"]:
            parts.append(svg.text(left + PANEL / 2, base - 14, "not used", text_anchor="middle"))
            continue
        peak = base - numbers["measured_peak_bytes"] * PIXELS_PER_GIB / 2**30
        parts += [areas(columns(curve, clock, seconds), x, base),
                  svg.line(left, peak, left + PANEL, peak, "ink", stroke_dasharray="3 4"),
                  svg.text(left + PANEL - 4, peak - 7, svg.size(numbers["measured_peak_bytes"]),
                           text_anchor="end", class_="strong")]
    for name, (start, end) in reports.phases(report).items():
        width = (end - start) * PANEL
        parts.append(svg.line(x(start) + 1, disk_base + 9, x(end) - 1, disk_base + 9, "line", stroke_width=3))
        if width > 7.5 * len(name):
            parts.append(svg.text((x(start) + x(end)) / 2, disk_base + 27, name, text_anchor="middle"))
    return "".join(parts)


def draw(no_limit, budget, budget_words):
    """Returns the picture of two output folders of `spillway train`, the second of which had a budget."""
    checksum = same_weights([no_limit, budget])
    runs = [reports.load(os.path.join(folder, "report.json")) for folder in (no_limit, budget)]
    used = {kind for run in runs for curve in run["memory_over_step"].values() if curve for kind, values in curve["kinds"].items()
            if max(values) > 2**20}
    memory_base, disk_base = 206.0, 340.0
    body = [axis(memory_base, 2.6, "memory"), axis(disk_base, 1.95, "disk")]
    for i, (run, words) in enumerate(zip(runs, ("no limit", budget_words))):
        body.append(panel(run, LEFT + i * (PANEL + GAP), memory_base, disk_base, words))
    swatches, below = svg.legend(24, disk_base + 58, [(kind, words) for kind, words in reports.STACK.items() if kind in used],
                                 WIDTH - RIGHT)
    body += [swatches, svg.text(24, below + 4, f"The trained weights are the same: sha256 {checksum[:16]}...", class_="ink")]
    peaks = [svg.size(run["tiers"]["device"]["measured_peak_bytes"]) for run in runs]
    return svg.document(WIDTH, int(below + 22), "Memory over one training step, without a limit and under a budget",
                        f"{runs[0]['title']}. Without a limit the peak is {peaks[0]}; with {budget_words} it is {peaks[1]}, and "
                        f"{svg.size(runs[1]['tiers']['disk']['measured_peak_bytes'])} on disk.",
                        "".join(body))
