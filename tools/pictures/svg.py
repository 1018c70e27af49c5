"""Pictures as SVG text: colours of the report's page, light and dark, and the few elements that the pictures share."""

import os
import re
from xml.sax.saxutils import escape, quoteattr

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STYLE = os.path.join(ROOT, "src", "report", "page", "report.css")
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'


def _palettes():
    """Returns the variables of report.css as (light, dark)."""
    with open(STYLE, encoding="utf-8") as file:
        text = file.read()
    dark_at = text.index("prefers-color-scheme: dark")
    dark_end = re.compile(r"^}", re.MULTILINE).search(text, dark_at).start()
    parse = lambda part: dict(re.findall(r"--(\w+): (#\w+);", part))
    return parse(text[:dark_at]), parse(text[dark_at:dark_end])


HATCH = ('<defs><pattern id="hatched" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
         '<rect width="5" height="5" fill="var(--card)"/><rect width="2.4" height="5" fill="var(--gradient)"/></pattern></defs>')


def paint(name):
    """The paint of a colour of the page, or `hatched` (where HATCH is part of the picture)."""
    return "url(#hatched)" if name == "hatched" else f"var(--{name})"


def element(tag, attributes=None, *children):
    """Returns an element; children are SVG text. In names of attributes `_` stands for `-`, at the end for nothing."""
    named = {name.rstrip("_").replace("_", "-"): number(value) for name, value in (attributes or {}).items()}
    written = "".join(f" {name}={quoteattr(value)}" for name, value in named.items())
    return f"<{tag}{written}>{''.join(children)}</{tag}>" if children else f"<{tag}{written}/>"


def number(value):
    """Numbers with one decimal at most; other values as text."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x, y, words, **attributes):
    return element("text", {"x": float(x), "y": float(y), **attributes}, escape(words))


def rectangle(x, y, width, height, fill, **attributes):
    return element("rect", {"x": float(x), "y": float(y), "width": float(width), "height": float(height),
                            "fill": paint(fill), **attributes})


def line(x1, y1, x2, y2, stroke, **attributes):
    return element("line", {"x1": float(x1), "y1": float(y1), "x2": float(x2), "y2": float(y2),
                            "stroke": f"var(--{stroke})", **attributes})


def document(width, height, title, description, body, extra_style=""):
    """Returns a whole picture on a card of its own, so that it reads well on any page."""
    light, dark = _palettes()
    variables = lambda colors: "".join(f"--{name}:{value};" for name, value in colors.items() if f"var(--{name})" in used)
    used = body + extra_style + "var(--card) var(--ink) var(--soft) var(--line)"
    style = (f":root{{{variables(light)}}}@media(prefers-color-scheme:dark){{:root{{{variables(dark)}}}}}"
             f"text{{font-family:{FONT};font-size:14px;fill:var(--soft)}}.strong{{fill:var(--ink);font-weight:600}}"
             f".ink{{fill:var(--ink)}}{extra_style}")
    card = element("rect", {"x": 0.5, "y": 0.5, "width": float(width - 1), "height": float(height - 1), "rx": 10,
                            "fill": "var(--card)", "stroke": "var(--line)"})
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-labelledby="t d"><title id="t">{escape(title)}</title><desc id="d">{escape(description)}</desc>'
            f"<style>{style}</style>{card}{body}</svg>\n")


def legend(x, y, names, right):
    """Returns swatches with their words, `names` being (colour, words), in rows from x to `right`, and the y below them."""
    parts, at = [], x
    for color, words in names:
        width = 20 + 7.4 * len(words) + 14
        if at + width - 14 > right and at > x:
            at, y = x, y + 22
        parts += [rectangle(at, y - 10, 13, 13, color, rx=2), text(at + 20, y + 1, words)]
        at += width
    return "".join(parts), y + 22


def size(bytes_):
    """Bytes in the units and digits that the program prints."""
    for unit, name, digits in ((2**30, "GiB", 2), (2**20, "MiB", 1), (2**10, "KiB", 1)):
        if bytes_ >= unit:
            return f"{bytes_ / unit:.{digits}f} {name}"
    return f"{bytes_} B"
