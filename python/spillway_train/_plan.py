"""The answers of `spillway plan`, as objects."""

import html
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ._config import Arguments, Config
from ._program import INPUT_WRONG, SpillwayError, call_json, flags

GIB, MIB = 1 << 30, 1 << 20


def size(bytes_: Optional[int]) -> str:
    if bytes_ is None:
        return "no limit"
    return f"{bytes_ / GIB:.2f} GiB" if bytes_ >= GIB else f"{bytes_ / MIB:.1f} MiB"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Returns an HTML table whose numbers are at the right."""

    def cells(kind: str, words: Sequence[str]) -> str:
        return "<tr>" + "".join(f'<{kind} style="text-align:right">{html.escape(word)}</{kind}>' for word in words) + "</tr>"

    body = "".join(cells("td", row) for row in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{cells('th', head)}{body}</table>"


@dataclass(frozen=True)
class Tier:
    """One kind of memory: `device`, `host` or `disk`."""

    name: str
    peak_bytes: int
    budget_bytes: Optional[int]  # None: no limit
    peak_at: str = ""
    by_kind: Mapping[str, int] = field(default_factory=dict)  # at the peak: frozen_weight, gradient, ...


@dataclass(frozen=True)
class Plan:
    """Where every byte of a job will live, and what a step costs. `json` is the whole document (docs/modes/memory_plan.md)."""

    fits: bool
    tiers: Mapping[str, Tier]
    json: Mapping[str, Any] = field(repr=False)

    @property
    def device(self) -> Tier:
        return self.tiers["device"]

    @property
    def host(self) -> Tier:
        return self.tiers["host"]

    @property
    def disk(self) -> Tier:
        return self.tiers["disk"]

    @property
    def step_seconds(self) -> Optional[float]:
        return self.json.get("step_seconds")

    @property
    def tokens_per_second(self) -> Optional[float]:
        return self.json.get("tokens_per_second")

    @property
    def bottleneck_lane(self) -> Optional[str]:
        return self.json.get("bottleneck_lane")

    @property
    def choices(self) -> List[Dict[str, Any]]:
        """The treatment of each block."""
        return list(self.json.get("choices", []))

    @property
    def frontier(self) -> List[Dict[str, Any]]:
        """The fastest plan for each amount of device memory."""
        return list(self.json.get("frontier", []))

    @property
    def missing(self) -> Dict[str, int]:
        """Bytes by tier that a job lacks which does not fit."""
        return dict(self.json.get("missing", {}))

    @property
    def nearest(self) -> List[Dict[str, Any]]:
        """Changes with which a job would fit that does not."""
        return list(self.json.get("nearest", []))

    def __str__(self) -> str:
        used = [f"{tier.name} {size(tier.peak_bytes)} of {size(tier.budget_bytes)}" for tier in self._used()]
        if not self.fits:
            lacking = ", ".join(f"{size(count)} of {name}" for name, count in self.missing.items() if count)
            return f"does not fit: {lacking} missing ({', '.join(used)})"
        return f"fits: {', '.join(used)}; {self._speed()}"

    def _used(self) -> List[Tier]:
        return [tier for tier in self.tiers.values() if tier.peak_bytes]

    def _speed(self) -> str:
        return f"{self.step_seconds or 0:.3g} s a step, {self.tokens_per_second or 0:.0f} tokens/s"

    def _repr_html_(self) -> str:
        caption = self._speed() if self.fits else f"{str(self).partition(' (')[0]}"
        rows = [(tier.name, size(tier.peak_bytes), size(tier.budget_bytes), tier.peak_at) for tier in self._used()]
        changes = [(str(one.get("change", "")), size(one.get("device_bytes"))) for one in self.nearest]
        would_fit = table(("what would fit", "device"), changes, "") if changes else ""
        return table(("tier", "peak", "budget", "at"), rows, caption) + would_fit


@dataclass(frozen=True)
class Fit:
    """The ways to train a model that fit on a machine: a row for each method and budget, the fastest plan first."""

    model: str
    machine: str
    rows: List[Dict[str, Any]]

    def _repr_html_(self) -> str:
        rows = []
        for row in self.rows:
            tiers = row.get("tiers", {})
            sizes = [size(tiers.get(name, {}).get("peak_bytes", 0)) for name in ("device", "host", "disk")]
            speed = f"{row.get('tokens_per_second') or 0:.0f}" if row.get("fits") else "does not fit"
            rows.append((str(row.get("method", "")), *sizes, speed))
        return table(("method", "device", "host", "disk", "tokens/s"), rows, f"{self.model} on {self.machine}")


def plan(config: Optional[Config] = None, **overrides: Any) -> Plan:
    """Returns the plan of a job, whether it fits or not; trains nothing.

    config and overrides: as train() takes them. `gpu="rtx4090"` or `machine="FILE.json"` plans for another machine.
    Raises InputError for what is wrong with the config, the model or the data.
    """
    with Arguments(config, overrides) as arguments:
        try:
            document = call_json(["plan", *arguments.words, "--json"], also=[INPUT_WRONG])
        except SpillwayError as error:
            raise type(error)(arguments.shown(str(error)), error.status, arguments.shown(error.log)) from None
    tiers = {
        name: Tier(name, tier["peak_bytes"], tier["budget_bytes"], tier.get("peak_at", ""), tier.get("by_kind", {}))
        for name, tier in document["tiers"].items()
    }
    return Plan(bool(document["fits"]), tiers, document)


def fit(model: str, **options: Any) -> Fit:
    """Returns what of a model fits, by name and before there is any file: fit("qwen3-8b", gpu="rtx3060-12gb").

    options: those of `spillway plan --model`: gpu, machine, method.
    """
    document = call_json(["plan", f"--model={model}", *flags(options), "--json"], also=[INPUT_WRONG])
    return Fit(document["model"], document["machine"], document["rows"])
