"""The picture of the two orders of a step: which layer computes which micro-batch when, and when its weights come."""

from pictures import svg

WIDTH, LEFT, RIGHT = 760, 126, 22
LAYERS, MICRO_BATCHES, ROW = 3, 3, 24
FILLS = ("keep", "host", "disk")


FORWARD = [(layer, "forward") for layer in range(LAYERS)]
PASSES = FORWARD + [(layer, "backward") for layer, _ in reversed(FORWARD)]


def horizontal():
    """Returns the (layer, pass, micro-batch) of each cell in time: one micro-batch after another."""
    return [(layer, way, m) for m in range(MICRO_BATCHES) for layer, way in PASSES]


def vertical():
    """The same with all micro-batches in a layer before the next layer."""
    return [(layer, way, m) for layer, way in PASSES for m in range(MICRO_BATCHES)]


def stays(before, cell):
    """Returns true if the weights are still there: in one pass over a layer, and in the last layer from one pass to the other."""
    return before[0] == cell[0] and (before[1] == cell[1] or cell[1] == "backward")


def loads(cells):
    """Returns the indices of the cells before which a layer's weights come."""
    return [i for i, cell in enumerate(cells) if i == 0 or not stays(cells[i - 1], cell)]


def panel(cells, y, words):
    width = (WIDTH - LEFT - RIGHT) / len(cells)
    parts = [svg.text(LEFT, y, words, class_="strong")]
    for layer in range(LAYERS):
        parts.append(svg.text(LEFT - 12, y + 28 + layer * ROW, f"layer {layer}", text_anchor="end", class_="small"))
    for i, (layer, _, micro_batch) in enumerate(cells):
        parts.append(svg.rectangle(LEFT + i * width, y + 12 + layer * ROW, width - 2, ROW - 3, FILLS[micro_batch], rx=2))
    below = y + 12 + LAYERS * ROW
    parts.append(svg.text(LEFT - 12, below + 14, "weights come", text_anchor="end", class_="small"))
    for i in loads(cells):
        parts.append(svg.text(LEFT + i * width + width / 2 - 1, below + 14, f"{cells[i][0]}", text_anchor="middle", class_="ink"))
    return "".join(parts), below + 50


def draw():
    at = 32
    body = []
    for cells, name in ((horizontal(), "horizontal"), (vertical(), "vertical")):
        part, at = panel(cells, at, f"{name}: weights of a layer come {len(loads(cells))} times")
        body.append(part)
    body.append(svg.text(LEFT, at - 12, "time, a step: forward pass, then backward pass", class_="small"))
    names = [(FILLS[m], f"micro-batch {m}") for m in range(MICRO_BATCHES)]
    swatches, below = svg.legend(LEFT, at + 14, names, WIDTH - RIGHT)
    return svg.document(WIDTH, below, "The two orders of a step",
                        f"{MICRO_BATCHES} micro-batches in {LAYERS} layers: one after another, weights come "
                        f"{len(loads(horizontal()))} times; layer by layer, {len(loads(vertical()))} times",
                        "".join(body) + swatches, ".small{font-size:13px}")
