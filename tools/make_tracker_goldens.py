#!/usr/bin/env python3
"""Writes tests/golden/trackers: files of wandb's records and of trackio's, by their own writers.

    pip install -r tools/tracker_requirements.txt
    python3 tools/make_tracker_goldens.py

`run.wandb` is a run of three steps and an evaluation, with the times that src/report/trackers/wandb_run_test.cc gives
to its clock; `resumed.wandb` the same, which goes on after its second step with other numbers, and ends. `blocks.json`
has lengths of records, which go over the ends of blocks in all ways, and the CRC-32 of the file that they make; byte i
of record r is (31 r + 7 i) mod 256. `trackio.jsonl` has the lines that trackio gives its inbox for a run, without times.
"""
import json
import math
import pathlib
import tempfile
import zlib

import wandb
from trackio.fragments import FragmentWriter, metric_record

wandb._set_internal_process(disable=True)
from wandb.proto import wandb_internal_pb2 as pb  # noqa: E402
from wandb.sdk.internal.datastore import DataStore  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/golden/trackers"
BLOCK = 32768
CONFIG = {"learning_rate": 0.0002, "adapter": "lora", "bf16": True, "lora_r": 16}
START = 1795971462.25
SECONDS = 0.5  # between two looks at the clock
LENGTHS = [10, BLOCK - 7 - 7 - 17 - 7 - 3, 5, BLOCK - 7 - 5, 70000, 0, BLOCK - 7, 100000, 1]


class Clock:
    def __init__(self, start: float) -> None:
        self.next = start - SECONDS

    def __call__(self) -> float:
        self.next += SECONDS
        return self.next


def json_text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


class Run:
    """Follows the order of the records in wandb_run.cc; contents are wandb's messages."""

    def __init__(self, store: DataStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.records = self.rows = 0
        self.began = clock()
        header = pb.Record()
        header.header.version_info.producer = "spillway"
        header.header.version_info.min_consumer = "0.12.0"
        self.write(header)
        run = pb.Record()
        run.run.run_id, run.run.entity, run.run.project = "0123abcd", "me", "project"
        run.run.run_group, run.run.display_name = "group", "a name"
        run.run.tags.extend(["one", "two"])
        run.run.host = "host"
        run.run.config.update.add(key="_wandb", value_json="{}")
        for key, value in CONFIG.items():
            run.run.config.update.add(key=key, value_json=json_text(value))
        run.run.start_time.seconds, run.run.start_time.nanos = int(self.began), int(self.began % 1 * 1e9)
        self.write(run)
        files = pb.Record()
        files.files.files.add(path="wandb-metadata.json")
        self.write(files)
        step = pb.Record()
        step.metric.name, step.metric.options.defined = "train/global_step", True
        self.write(step)
        others = pb.Record()
        others.metric.glob_name, others.metric.step_metric = "*", "train/global_step"
        others.metric.options.step_sync = others.metric.options.defined = True
        self.write(others)

    def write(self, record: pb.Record) -> None:
        self.records += 1
        record.num = self.records
        self.store.write(record)

    def row(self, step: int, numbers: dict[str, float]) -> None:
        history, summary = pb.Record(), pb.Record()
        items = dict(numbers)
        items["train/global_step"] = step
        items["_timestamp"] = self.clock()
        items["_runtime"] = self.clock() - self.began
        items["_step"] = self.rows
        for name, value in items.items():
            text = json_text(value)
            history.history.item.add(nested_key=[name], value_json=text)
            summary.summary.update.add(nested_key=[name], value_json=text)
        history.history.step.num = self.rows
        if self.rows == 0:
            history.history.step.SetInParent()
        self.write(history)
        self.write(summary)
        self.rows += 1

    def end(self) -> None:
        exit_ = pb.Record()
        exit_.exit.runtime = int(self.clock() - self.began)
        self.write(exit_)


def write(path: pathlib.Path, third: float, ends: bool) -> None:
    path.unlink(missing_ok=True)
    store = DataStore()
    store.open_for_write(str(path))
    run = Run(store, Clock(START))
    run.row(1, {"train/loss": 2.5, "train/grad_norm": 0.125})
    run.row(2, {"train/loss": 2.25, "train/grad_norm": float("nan")})
    run.row(2, {"eval/loss": 2.125})
    run.row(3, {"train/loss": third, "train/grad_norm": 1e-7})
    if ends:
        run.end()
    store.close()


def blocks() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "blocks"
        store = DataStore()
        store.open_for_write(str(path))
        for number, length in enumerate(LENGTHS):
            store._write_data(bytes((31 * number + 7 * i) % 256 for i in range(length)))
        store.close()
        data = path.read_bytes()
    return {"lengths": LENGTHS, "bytes": len(data), "crc32": zlib.crc32(data)}


def trackio_lines() -> bytes:
    config: dict[str, object] | None = {"lora_r": 16, "bf16": True}
    records = []
    for step, prefix, loss in [(1, "train", 2.5), (2, "train", math.nan), (2, "eval", 2.125), (3, "train", -math.inf)]:
        record = metric_record(
            {
                "project": "project",
                "run": "a name",
                "run_id": "0123456789abcdef",
                "metrics": {f"{prefix}/loss": loss},
                "step": step,
                "config": config,
                "log_id": f"0123456789abcdef-{step}-{prefix}",
            }
        )
        del record["timestamp"]
        records.append(record)
        config = None
    return FragmentWriter.serialize_records(records)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    write(FOLDER / "run.wandb", 2.0, False)
    write(FOLDER / "resumed.wandb", 1.75, True)
    (FOLDER / "blocks.json").write_text(json.dumps(blocks()) + "\n")
    (FOLDER / "trackio.jsonl").write_bytes(trackio_lines())
