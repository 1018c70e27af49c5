"""The bar that shows how far a run is: in a terminal on one line, in a notebook below the cell."""

import html
import importlib
import shutil
import sys
import time
from typing import Any, Dict, Optional

SECONDS_PER_DRAW = 0.1
WIDTH = 24


def notebook_display() -> Optional[Any]:
    """Returns IPython's display() in a notebook, None elsewhere; imports nothing that is not there already."""
    if "IPython" not in sys.modules or "ipykernel" not in sys.modules:
        return None
    return importlib.import_module("IPython.display").display


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Bar:
    """Draws the steps of a run. `wanted`: None draws in terminals and notebooks alone."""

    def __init__(self, wanted: Optional[bool]) -> None:
        display = None if wanted is False else notebook_display()
        self._handle: Any = None
        self._html = display
        self._line = display is None and (wanted or (wanted is None and sys.stderr is not None and sys.stderr.isatty()))
        self._first_step, self._since, self._drawn, self._is_open = 0, 0.0, 0.0, False
        self._total = 0
        self._last: Dict[str, Any] = {}

    def begin(self, step: int, total: int) -> None:
        self._first_step, self._total, self._since = step, total, time.monotonic()

    def update(self, line: Dict[str, Any]) -> None:
        """Takes a line of metrics.jsonl."""
        if "loss" not in line:  # of an evaluation
            return
        self._last = line
        now = time.monotonic()
        if now - self._drawn >= SECONDS_PER_DRAW or line["step"] >= self._total:
            self._drawn = now
            self._draw(self.text(now))

    def end(self) -> None:
        if self._is_open and self._line:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._is_open = False

    def text(self, now: float) -> str:
        step, loss = int(self._last["step"]), self._last.get("loss")
        parts = [f"step {step}/{self._total}"]
        if loss is not None:
            parts.append(f"loss {loss:.4f}")
        if self._last.get("tokens_per_second"):
            parts.append(f"{self._last['tokens_per_second']:.0f} tokens/s")
        done = step - self._first_step
        if 0 < done and step < self._total:
            parts.append(f"{duration((now - self._since) / done * (self._total - step))} left")
        return " · ".join(parts)

    def _share(self) -> float:
        return min(1.0, float(self._last["step"]) / self._total) if self._total else 1.0

    def _draw(self, text: str) -> None:
        self._is_open = True
        if self._html:
            self._show_html(text)
        elif self._line:
            filled = int(self._share() * WIDTH)
            line = f"{self._share():4.0%} [{'#' * filled}{' ' * (WIDTH - filled)}] {text}"
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def _show_html(self, text: str) -> None:
        shown = {
            "text/plain": text,
            "text/html": f'<progress max="1" value="{self._share():.4f}" style="width:16em"></progress> {html.escape(text)}',
        }
        if self._handle is None:
            self._handle = self._html(shown, raw=True, display_id=True) if self._html else None
        else:
            self._handle.update(shown, raw=True)
