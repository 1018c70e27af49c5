"""The picture of mixtures: where the activations and weights of each layer are, in plans of one job for several budgets."""

from pictures import svg

WIDTH, LEFT, RIGHT = 760, 126, 22
STRIPE, GAP = 9, 16
GROUPS = {"boundary": "block inputs", "attention": "attention", "product": "products", "elementwise": "elementwise"}
FILLS = {"keep": "keep", "device": "keep", "host": "host", "disk": "disk", "recompute": "hatched"}


def stripe(values, x, y, width):
    """Returns the values of consecutive layers as rectangles, equal neighbours as one."""
    parts, start = [], 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[start]:
            parts.append(svg.rectangle(x + start * width, y, (i - start) * width, STRIPE - 1, FILLS[values[start]]))
            start = i
    return "".join(parts)


def row(plan, y, fastest):
    layers = plan["choices"]
    width = (WIDTH - LEFT - RIGHT) / len(layers)
    parts = [svg.text(LEFT - 12, y + 16, svg.size(plan["tiers"]["device"]["peak_bytes"]), text_anchor="end", class_="strong"),
             svg.text(LEFT - 12, y + 34, f"{plan['step_seconds'] / fastest:.2f} x the time", text_anchor="end", class_="small")]
    for i, group in enumerate(GROUPS):
        parts.append(stripe([layer["saved"][group] for layer in layers], float(LEFT), y + i * STRIPE, width))
    parts.append(stripe([layer["weights"] for layer in layers], float(LEFT), y + len(GROUPS) * STRIPE + 2, width))
    return "".join(parts)


def draw(plans, title):
    """Returns the picture of plans as `spillway plan --json` prints them, the largest budget first."""
    layers = len(plans[0]["choices"])
    height = (len(GROUPS) + 1) * STRIPE + 2 + GAP
    body = [svg.HATCH, svg.text(LEFT, 28, title, class_="strong"), svg.text(LEFT, 50, "layer 0", class_="small"),
            svg.text(WIDTH - RIGHT, 50, f"layer {layers - 1}", text_anchor="end", class_="small"),
            svg.text(LEFT - 12, 50, "device memory", text_anchor="end", class_="small")]
    y = 60
    for plan in plans:
        body.append(row(plan, y, min(p["step_seconds"] for p in plans)))
        y += height
    body.append(svg.text(LEFT, y + 8, f"of each plan: saved {', '.join(GROUPS.values())}; then weights",
                         class_="small"))
    words = (("keep", "on the device"), ("host", "host memory"), ("disk", "disk"), ("hatched", "recomputed"))
    swatches, below = svg.legend(LEFT, y + 32, words, WIDTH - RIGHT)
    return svg.document(WIDTH, below, f"Mixtures of treatments: {title}",
                        "; ".join(f"{svg.size(p['tiers']['device']['peak_bytes'])}: {p['step_seconds']:.1f} s" for p in plans),
                        "".join(body) + swatches, ".small{font-size:13px}")
