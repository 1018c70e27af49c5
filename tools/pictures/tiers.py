"""The picture of tiers: what lives in device memory, host memory and on disk at the peak of each, and how fast the links are."""

from pictures import report as reports
from pictures import svg

WIDTH, LEFT, RIGHT = 760, 142, 22
NAMES = {"device": "device memory", "host": "host memory", "disk": "disk"}


def bar(tier, numbers, y, pixels_per_byte):
    at, parts = LEFT, []
    for kind in reports.STACK:
        width = numbers["by_kind"][kind] * pixels_per_byte
        if width >= 0.5:
            parts.append(svg.rectangle(at, y, width, 34, kind))
        at += width
    budget = numbers["budget_bytes"]
    end = LEFT + budget * pixels_per_byte
    shown = svg.size(numbers["peak_bytes"]) + f" of {svg.size(budget)}"
    if end <= WIDTH - RIGHT:
        parts.append(svg.element("rect", {"x": float(LEFT), "y": y - 3.0, "width": float(end - LEFT), "height": 40.0, "rx": 3,
                                          "fill": "none", "stroke": "var(--soft)", "stroke_dasharray": "3 4"}))
    parts += [svg.text(LEFT - 12, y + 16, NAMES[tier], text_anchor="end", class_="strong"),
              svg.text(LEFT - 12, y + 34, numbers["rate"], text_anchor="end", class_="small"),
              svg.text(LEFT, y + 54, shown, class_="small ink")]
    return "".join(parts)


def draw(plan, machine, title):
    """Returns the picture of `spillway plan --json`, with the rates of the machine's description."""
    link = machine["link_bytes_per_second"]
    rates = {"device": f"{machine['memory_bytes_per_second'] / 1e9:.0f} GB/s", "host": f"{link['host_to_device'] / 1e9:.0f} GB/s",
             "disk": f"{link['disk_read'] / 1e9:.1f} GB/s"}
    tiers = {tier: {**numbers, "rate": rates[tier]} for tier, numbers in plan["tiers"].items() if numbers["peak_bytes"]}
    widest = max(max(numbers["peak_bytes"] for numbers in tiers.values()), tiers["host"]["budget_bytes"])
    pixels_per_byte = (WIDTH - LEFT - RIGHT) / widest
    body, y = [svg.text(LEFT, 30, title, class_="strong")], 50
    for tier, numbers in tiers.items():
        body.append(bar(tier, numbers, float(y), pixels_per_byte))
        y += 74
    used = [(kind, words) for kind, words in reports.STACK.items()
            if any(numbers["by_kind"][kind] * pixels_per_byte >= 0.5 for numbers in tiers.values())]
    swatches, below = svg.legend(LEFT, y + 14, used, WIDTH - RIGHT)
    return svg.document(WIDTH, int(below + 4), f"What lives in which tier: {title}",
                        ", ".join(f"{NAMES[tier]}: {svg.size(numbers['peak_bytes'])}" for tier, numbers in tiers.items()),
                        "".join(body) + swatches, ".small{font-size:13px}")
