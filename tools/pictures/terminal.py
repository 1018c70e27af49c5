"""A recording of commands at a terminal, as an SVG that plays: what they print is what they printed, in less time.

pyte (a terminal emulator) turns what the commands write into screens. Each row of the picture is one text for each time at which
it looked the same. Where a reader wants no motion, the last screen stands still.
"""

import os
import pty
import select
import struct
import fcntl
import termios
import time
from xml.sax.saxutils import escape

import pyte

from pictures import svg

COLUMNS, ROWS = 94, 23
CELL, LINE, FONT_SIZE, MARGIN = 7.8, 17, 13, 18
LONGEST_WAIT, COMMAND_SECONDS, KEY_SECONDS, FRAME_SECONDS, REST_SECONDS = 1.0, 9.0, 0.04, 0.15, 4.0
PROMPT = "$ "


def run(command, folder):
    """Returns [(seconds since the output before, bytes)] of a command at a terminal of its own. Raises where it fails."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["TERM"] = "xterm-256color"
        os.execvp("bash", ["bash", "-c", command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    before, outputs = time.monotonic(), []
    while select.select([terminal], [], [])[0]:
        try:
            written = os.read(terminal, 65536)
        except OSError:  # Linux says EIO where the other side of a terminal has ended
            break
        now = time.monotonic()
        outputs.append((now - before, written))
        before = now
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise SystemExit(f"[{command}] expected exit status 0, got {status}; run it by hand")
    return outputs


def hastened(outputs):
    """Returns outputs with waits of LONGEST_WAIT at most, and all of them in COMMAND_SECONDS at most."""
    seconds = sum(min(waited, LONGEST_WAIT) for waited, _ in outputs)
    factor = min(1.0, COMMAND_SECONDS / seconds)
    return [(factor * min(waited, LONGEST_WAIT), written) for waited, written in outputs]


def record(commands, folder):
    """Returns [(seconds, rows)]: the screen at each time at which it had changed; rows are lists of (column, text, bold)."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    now, frames = 0.0, []
    snapshot = lambda: frames.append((now, [row_runs(screen.buffer[y]) for y in range(ROWS)]))
    for i, command in enumerate(commands):
        if i:
            now += REST_SECONDS
            screen.reset()
        stream.feed(PROMPT.encode())
        for key in command:
            now += KEY_SECONDS
            stream.feed(key.encode())
            snapshot()
        stream.feed(b"\r\n")
        for waited, written in hastened(run(command, folder)):
            now += waited
            stream.feed(written)
            if now - frames[-1][0] >= FRAME_SECONDS:
                snapshot()
        snapshot()
    return frames


def row_runs(cells):
    """Returns the runs of a row of cells that look the same: (column, text, bold)."""
    runs = []
    for x in range(COLUMNS):
        cell = cells[x]
        if runs and runs[-1][2] == cell.bold and runs[-1][0] + len(runs[-1][1]) == x:
            runs[-1] = (runs[-1][0], runs[-1][1] + cell.data, cell.bold)
        else:
            runs.append((x, cell.data, cell.bold))
    trimmed = [(x, words.rstrip() if i == len(runs) - 1 else words, bold) for i, (x, words, bold) in enumerate(runs)]
    return [run for run in trimmed if run[1].strip()]


def appearances(frames, end):
    """Yields (row, runs, first second, last second) of everything that rows showed."""
    for y in range(ROWS):
        shown, since = None, 0.0
        for seconds, rows in frames + [(end, None)]:
            runs = rows[y] if rows else None
            if runs != shown:
                if shown:
                    yield y, shown, since, seconds
                shown, since = runs, seconds


def row_svg(y, runs, name, last):
    top = MARGIN + 30 + (y + 1) * LINE - 5
    parts = [svg.element("text", {"x": MARGIN + x * CELL, "y": float(top), "textLength": len(words) * CELL,
                                  **({"class": "strong"} if bold else {})}, escape(words).replace(" ", "\u00a0"))
             for x, words, bold in runs]
    return svg.element("g", {"class": f"{name}{' last' if last else ''}"}, *parts)


def draw(frames, title):
    """Returns the picture of a recording. It begins with its last screen, as does what shows its first moment alone."""
    frames = [(0.0, frames[-1][1])] + [(REST_SECONDS + seconds, rows) for seconds, rows in frames]
    end = frames[-1][0] + FRAME_SECONDS
    body, keyframes, names = [], [], {}
    for y, runs, since, until in appearances(frames, end):
        if (since, until) not in names:
            names[since, until] = f"k{len(names)}"
            steps = [(0.0, "hidden")] if since else []
            steps.append((100 * since / end, "visible"))
            if until < end:
                steps.append((100 * until / end, "hidden"))
            moments = "".join(f"{share:.2f}%{{visibility:{state}}}" for share, state in steps)
            name = names[since, until]
            keyframes.append(f"@keyframes {name}{{{moments}}}.{name}{{animation-name:{name}}}")
        body.append(row_svg(y, runs, names[since, until], until == end))
    width, height = int(2 * MARGIN + COLUMNS * CELL), MARGIN + 30 + ROWS * LINE + 10
    dots = "".join(svg.element("circle", {"cx": 22 + 18 * i, "cy": 22, "r": 5.5, "fill": "var(--line)"}) for i in range(3))
    style = ('g text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;'
             f"font-size:{FONT_SIZE}px;fill:var(--ink)}}g{{visibility:hidden}}g.last{{visibility:visible}}"
             f"@media(prefers-reduced-motion:no-preference){{g{{animation:{end:.1f}s step-end infinite}}{''.join(keyframes)}}}")
    return svg.document(width, height, title, "The last screen: " + " ".join(
        words.strip() for runs in frames[-1][1] for _, words, _ in runs), dots + "".join(body), style)
