#!/usr/bin/env python3
"""Reads the runs that a training has left for wandb, MLflow and trackio with the readers of these libraries, and
compares them with its metrics.jsonl. trackio imports its files, and removes them.

    pip install -r tools/tracker_requirements.txt
    spillway train CONFIG.yml --report_to '[wandb, mlflow, trackio]' --output_dir OUTPUT
    python3 tools/read_tracker_runs.py OUTPUT
"""
import json
import math
import os
import pathlib
import sys

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

import mlflow  # noqa: E402
import wandb  # noqa: E402

wandb._set_internal_process(disable=True)
from wandb.proto import wandb_internal_pb2 as pb  # noqa: E402
from wandb.sdk.internal.datastore import DataStore  # noqa: E402

Rows = dict[tuple[int, str], float]


def rows_of_metrics(output: pathlib.Path) -> Rows:
    """Returns the numbers by step and transformers' name."""
    rows: Rows = {}
    for line in (output / "metrics.jsonl").read_text().splitlines():
        numbers = json.loads(line)
        step = numbers.pop("step")
        is_evaluation = any(key.startswith("eval_") for key in numbers)
        if "weights_step" in numbers:
            continue
        for key, value in numbers.items():
            if key.startswith("memory/") or (is_evaluation and key == "epoch"):
                continue
            name = f"eval/{key.removeprefix('eval_')}" if is_evaluation else f"train/{key}"
            rows[step, name] = math.nan if value is None else value
    return rows


def rows_of_wandb(output: pathlib.Path) -> tuple[Rows, dict[str, object], dict[str, float]]:
    (file,) = output.glob("wandb/offline-run-*/run-*.wandb")
    store = DataStore()
    store.open_for_scan(str(file))
    rows: Rows = {}
    config: dict[str, object] = {}
    summary: dict[str, float] = {}
    exits = 0
    while (data := store.scan_data()) is not None:
        record = pb.Record()
        record.ParseFromString(data)
        if record.HasField("run"):
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.HasField("summary"):
            summary.update({item.nested_key[0]: json.loads(item.value_json) for item in record.summary.update})
        if record.HasField("history"):
            numbers = {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            step = numbers.pop("train/global_step")
            rows.update({(step, name): value for name, value in numbers.items() if not name.startswith("_")})
        exits += record.HasField("exit")
    assert exits == 1, f"expected one end of the run in {file}, got {exits}"
    return rows, config, summary


def rows_of_mlflow(output: pathlib.Path) -> tuple[Rows, dict[str, str]]:
    client = mlflow.MlflowClient(tracking_uri=(output / "mlruns").resolve().as_uri())
    (experiment,) = client.search_experiments()
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED", run.info.status
    rows: Rows = {}
    for name in run.data.metrics:
        known = f"eval/{name.removeprefix('eval_')}" if name.startswith("eval_") else f"train/{name}"
        for metric in client.get_metric_history(run.info.run_id, name):
            rows[metric.step, known] = metric.value
    return rows, run.data.params


def rows_of_trackio(output: pathlib.Path) -> tuple[Rows, dict[str, object]]:
    os.environ["TRACKIO_DIR"] = str((output / "trackio").resolve())
    from trackio import fragments
    from trackio.sqlite_storage import SQLiteStorage

    fragments.import_inbox_dir()
    (project,) = SQLiteStorage.get_projects()
    (run,) = SQLiteStorage.get_runs(project)
    rows: Rows = {}
    for numbers in SQLiteStorage.get_logs(project, run):
        step = numbers.pop("step")
        rows.update({(step, name): value for name, value in numbers.items() if "/" in name})
    return rows, SQLiteStorage.get_run_config(project, run) or {}


def check_same(what: str, rows: Rows, expected: Rows) -> None:
    assert rows.keys() == expected.keys(), f"{what}: {sorted(rows.keys() ^ expected.keys())}"
    for place, value in rows.items():
        same = value == expected[place] or (math.isnan(value) and math.isnan(expected[place]))
        assert same, f"{what}, {place}: expected {expected[place]}, got {value}"


def main(output: pathlib.Path) -> None:
    expected = rows_of_metrics(output)
    rows, config, summary = rows_of_wandb(output)
    check_same("wandb", rows, expected)
    last = {name: value for (_, name), value in sorted(expected.items())}
    assert all(summary[name] == last[name] or math.isnan(last[name]) for name in last), summary
    print(f"wandb: {len(rows)} numbers, {len(config)} settings: {json.dumps(config)[:200]}")
    rows, params = rows_of_mlflow(output)
    check_same("MLflow", rows, expected)
    print(f"MLflow: {len(rows)} numbers, {len(params)} settings")
    rows, settings = rows_of_trackio(output)
    check_same("trackio", rows, expected)
    print(f"trackio: {len(rows)} numbers, {len(settings)} settings")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
