"""The picture of lanes: what computes and what moves during one micro-batch, and a part of it enlarged."""

from pictures import report as reports
from pictures import svg

WIDTH, LEFT, RIGHT = 760, 126, 22
HEIGHT, GAP = 20, 6
NAMES = {"compute": "compute", "host_to_device": "host to device", "device_to_host": "device to host", "disk_read": "disk read",
         "disk_write": "disk write", "host_compute": "host compute"}
WORK_NAMES = {"forward": "forward", "backward": "backward", "recompute": "recomputed", "update": "update"}
WORK_FILLS = {"forward": "forward", "backward": "backward", "recompute": "hatched", "update": "update", "stall": "stall"}


def spans(report):
    """Returns {lane: [(start, end, class), ...]} in seconds, the waits of the computing lane among them as `stall`."""
    timeline = report["timeline"]
    times, unit = timeline[reports.clock(report)], timeline["unit_seconds"]
    found = {}
    for i, (lane, index, *_) in enumerate(timeline["instructions"]):
        found.setdefault(reports.LANES[lane], []).append(
            (times["start"][i] * unit, (times["start"][i] + times["duration"][i]) * unit, reports.class_name(index)))
    found["compute"] += [(start * unit, (start + duration) * unit, "stall") for start, duration, _ in times["stalls"]]
    return {lane: sorted(found[lane]) for lane in NAMES if lane in found}


def merged(items, gap):
    """Joins neighbours of a class that lie closer together than `gap`."""
    result = []
    for start, end, name in items:
        if result and result[-1][2] == name and start - result[-1][1] < gap:
            result[-1] = (result[-1][0], max(end, result[-1][1]), name)
        else:
            result.append((start, end, name))
    return result


def panel(lanes, begin, end, y):
    """Returns the lanes from `begin` to `end` in seconds, and the y below them."""
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)
    parts = []
    for lane, items in lanes.items():
        parts += [svg.text(LEFT - 12, y + 15, NAMES[lane], text_anchor="end"),
                  svg.rectangle(LEFT, y, WIDTH - LEFT - RIGHT, HEIGHT, "grid")]
        for start, finish, name in merged(items, 0.6 / scale):
            left, right = LEFT + (max(start, begin) - begin) * scale, LEFT + (min(finish, end) - begin) * scale
            if right - left > 0.15:
                parts.append(svg.rectangle(left, y, right - left, HEIGHT, WORK_FILLS.get(name, name)))
        y += HEIGHT + GAP
    parts += [svg.text(LEFT, y + 12, f"{begin:.2f} s", class_="small"),
              svg.text(WIDTH - RIGHT, y + 12, f"{end:.2f} s", text_anchor="end", class_="small")]
    return "".join(parts), y + 22


def draw(report, title, share):
    """Returns the picture of a report; `share` is the (begin, end) of the enlarged part in shares of the micro-batch."""
    lanes = spans(report)
    seconds = max(end for items in lanes.values() for _, end, _ in items)
    begin, end = (seconds * part for part in share)
    whole, y = panel(lanes, 0.0, seconds, 46)
    left, right = (LEFT + (WIDTH - LEFT - RIGHT) * part for part in share)
    mark = svg.element("rect", {"x": left, "y": 43.0, "width": right - left, "height": y - 46.0 - 22, "rx": 2, "fill": "none",
                                "stroke": "var(--ink)", "stroke_width": 1.5})
    enlarged, below = panel(lanes, begin, end, y + 34)
    used = {name for items in lanes.values() for _, _, name in items}
    words = [(WORK_FILLS[name], WORK_NAMES[name]) for name in WORK_NAMES if name in used]
    words += [("stall", "compute waits")] if "stall" in used else []
    words += [(kind, reports.STACK[kind]) for kind in reports.STACK if kind in used - {"batch"}]
    swatches, bottom = svg.legend(LEFT, below + 16, words, WIDTH - RIGHT)
    body = [svg.HATCH, svg.text(LEFT, 30, title, class_="strong"), whole, mark,
            svg.text(LEFT, y + 24, "the framed part, enlarged", class_="small"), enlarged, swatches]
    return svg.document(WIDTH, int(bottom + 2), f"Lanes over one micro-batch: {title}",
                        f"{seconds:.2f} seconds, on the lanes {', '.join(NAMES[lane] for lane in lanes)}", "".join(body),
                        ".small{font-size:13px}")
