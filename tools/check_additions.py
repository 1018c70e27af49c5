#!/usr/bin/env python3
"""Holds what an addition touches: for an example of each kind, the files of src/ whose code names it.

The pages docs/add-a-*.md say which files an addition touches. A file that names an example and is not listed here is one
more that the next addition of its kind touches: make it follow from what is there, or list it in the same commit. The
page of a kind names each listed file.

usage: tools/check_additions.py [--list]   exit status 1 where files or pages are others; --list prints the numbers
"""

import os
import re
import subprocess
import sys
import typing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = (".h", ".cc", ".cu", ".cuh", ".def", ".inc")
NOT_PRODUCTION = re.compile(r"(_test|_fuzz)\.\w+$|/testing/|/testing\.h$")
COMMENT = re.compile(r"//[^\n]*")


class Addition(typing.NamedTuple):
    """An example of a kind of addition."""

    kind: str
    page: str  # in docs/; empty: the kind has none
    names: str  # a pattern of what code calls the example
    own: str  # how the paths of its own files begin
    others: str  # the other files of src/ that name it
    users: str = ""  # those that name it because they use it


ADDITIONS = [
    Addition("operation", "add-an-operation.md", "gated_add", "ops/gated_add/", "", "model/dit/wan.cc"),
    Addition(
        "optimizer",
        "add-an-optimizer.md",
        "[aA]dagrad",
        "ops/optimizers/adagrad/",
        "config/values_optimizer.cc ops/optimizers/formulas-inl.h ops/optimizers/optimizer.cc",
    ),
    Addition(
        "loss of preferences",
        "add-an-objective.md",
        "kNcaPair|nca_pair",
        "",
        "config/preference_settings.h config/resolve_preference.cc objectives/dpo/losses.cc",
    ),
    Addition(
        "objective",
        "add-an-objective.md",
        r"kCpo\b|\bcpo\b",
        "objectives/cpo/",
        """config/keys.h config/keys/preferences.def config/preference_settings.h config/resolve_data.cc
        config/resolve_preference.cc config/spelled.h config/values_preference.cc objectives/preference.cc""",
    ),
    Addition(
        "decoder",
        "add-a-model.md",
        "[sS]eed_?[oO]ss",
        "model/decoder/seed_oss.cc",
        "model/decoder/architecture.cc model/decoder/architecture.h",
    ),
    Addition(
        "kind of layer",
        "add-a-layer-kind.md",
        r"SelectiveScan\b|selective_scan",
        "model/decoder/selective_scan. ops/selective_scan/",
        """model/decoder/append_layer.cc model/decoder/append_layer.h model/decoder/decoder.cc
        model/decoder/gguf_check.cc model/decoder/gguf_states.cc model/decoder/gguf_weight_list.h
        model/decoder/layer.cc model/decoder/layer.h ops/shared_states/shared_states.cc
        ops/shared_states/shared_states.h""",
        "model/decoder/jamba.cc model/decoder/state_space_config.cc model/decoder/state_space_config.h",
    ),
    Addition("key", "add-a-key.md", "num_generations_eval", "", "config/keys/completions.def", "train/online/rollout_feed.cc"),
    Addition(
        "key whose value depends on others",
        "add-a-key.md",
        "loraplus_lr_ratio",
        "",
        "config/config.h config/keys/adapter.def config/resolve_model.cc config/resolve_optimizer.cc saved/run_settings.cc",
        "job/job.cc",
    ),
    Addition("command", "", "cmd_tokenize", "cli/cmd_tokenize.", "cli/commands.cc"),
    Addition(
        "program of a job",
        "add-a-program.md",
        "Kind::kGather|^ +kGather,",
        "",
        "job/online/online_job.cc job/online/round_forecast.cc job/programs.cc job/programs.h train/session.cc",
    ),
    Addition(
        "kind of run",
        "add-a-run-kind.md",
        r"OnlineJob\b|\bonline_of\b",
        "job/online/ train/online/",
        "job/run_kind.cc train/run_data.cc",
        "cli/report_samples.cc",
    ),
    Addition(
        "storage",
        "add-a-storage.md",
        r"WeightCoding::kMxfp4|StoredFormat::kMxfp4|\bkMxfp4\b|stored_mxfp4",
        "model/storages/mxfp4.",
        """config/config.h config/resolve_model.cc config/spelled.h config/values_adapter.cc infer/linear_storage.cc
        model/decoder/config.cc model/quantised/quantisation_config.cc ops/quantised_matmul/decode.cuh
        ops/quantised_matmul/four_bit_cpu.cc ops/quantised_matmul/quantised_weight.cc tensor/quantised_format.h""",
        """config/resolve_qat.cc ops/fake_quantise/fake_quantise.cc ops/fake_quantise/formats-inl.h
        tensor/fake_quantisation.h""",
    ),
    Addition(
        "home",
        "add-a-home.md",
        "kExpertPart|kFrozenExperts|kTrainableExperts",
        "graph/experts.",
        """graph/graph.h job/job.cc job/offload_policy.cc model/layers.cc plan/roles.cc plan/roles.h plan/shown_homes.cc""",
    ),
    Addition("type of rows", "add-a-dataset-format.md", "concisechoice", "", "data/rows/instruction_kinds.cc"),
]


def sources():
    """Yields (path in src/, code without comments) of each production file."""
    for path in subprocess.check_output(["git", "-C", ROOT, "ls-files", "src"], text=True).splitlines():
        if path.endswith(CODE) and not NOT_PRODUCTION.search(path):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                yield path.removeprefix("src/"), COMMENT.sub("", file.read())


def check(addition, files):
    """Returns (the number of files beside its users, what is wrong) of an addition; `files` name it."""
    own = {path for path in files if path.startswith(tuple(addition.own.split()))}
    others, users = set(addition.others.split()), set(addition.users.split())
    wrong = [f"[src/{path}] names the example of {addition.kind}, {addition.names}; make it follow from what is there"
             for path in sorted(files - own - others - users)]
    wrong += [f"[src/{path}] no longer names the example of {addition.kind}; remove it from tools/check_additions.py"
              for path in sorted((others | users) - files)]
    if addition.page:
        with open(os.path.join(ROOT, "docs", addition.page), encoding="utf-8") as file:
            page = file.read()
        wrong += [f"[docs/{addition.page}] expected to name {path}, which {addition.kind} touches"
                  for path in sorted(others) if os.path.basename(path) not in page]
    return len(own | others), wrong


def main(arguments):
    if arguments not in ([], ["--list"]):
        print(__doc__, file=sys.stderr)
        return 2
    code = dict(sources())
    wrong = []
    for addition in ADDITIONS:
        names = re.compile(addition.names, re.MULTILINE)
        count, found = check(addition, {path for path, text in code.items() if names.search(text)})
        wrong += found
        if arguments:
            print(f"{addition.kind:36} {count:3} files")
    print("\n".join(wrong) if wrong else f"{len(ADDITIONS)} kinds of additions touch the files that their pages name")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
