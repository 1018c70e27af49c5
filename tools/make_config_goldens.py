#!/usr/bin/env python3
"""Writes tests/golden/config_values.json: which kinds of values the keys of axolotl and TRL take, and TRL's defaults.

    pip install trl==1.16.0 pydantic pillow addict
    pip download axolotl==0.21.0 --no-deps --ignore-requires-python && unzip axolotl-*.whl -d axolotl_wheel
    tools/make_config_goldens.py axolotl_wheel

Axolotl's schema validates a small config with one value more; a kind counts as refused where the error is about the type
of that key, not about other keys beside it. Of TRL the annotations of the dataclasses are read, as its own parser reads
them, and the defaults are those of `trl sft` for a config that names a model and a dataset.
"""

import dataclasses
import enum
import importlib.metadata
import json
import logging
import os
import pathlib
import sys
import tempfile
import types
import typing

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "config_values.json"
KINDS = {"flag": True, "integer": 3, "number": 0.5, "text": "xyz", "list": ["a", "b"], "map": {"a": "b"}}
AXOLOTL_CONFIG = {"base_model": "m", "datasets": [{"path": "a", "type": "alpaca"}], "learning_rate": 1e-4,
                  "micro_batch_size": 1, "gradient_accumulation_steps": 1, "output_dir": "o"}
WRONG_TYPE = ("_type", "_parsing", "int_from_float")


def axolotl_kinds():
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.schemas.config import AxolotlInputConfig
    from pydantic import ValidationError

    def takes(key, value):
        try:
            AxolotlInputConfig(**DictDefault({**AXOLOTL_CONFIG, key: value}))
        except ValidationError as error:
            # Every member of a union has its error.
            at_key = [one for one in error.errors() if one["loc"] and one["loc"][0] == key]
            return not at_key or not all(one["type"].endswith(WRONG_TYPE) for one in at_key)
        except Exception:  # pylint: disable=broad-except
            return True  # refused for another reason
        return True

    AxolotlInputConfig(**DictDefault(AXOLOTL_CONFIG))
    fields = AxolotlInputConfig.model_fields
    names = sorted({name for field, info in fields.items() for name in (field, info.alias or field)})
    return {name: " ".join(kind for kind, value in KINDS.items() if takes(name, value)) for name in names}


def kinds_of(annotation):
    origin = typing.get_origin(annotation)
    if annotation is typing.Any:
        return set(KINDS)
    if origin in (typing.Union, types.UnionType):
        return set().union(*(kinds_of(one) for one in typing.get_args(annotation)))
    base = origin or annotation
    if base is typing.Literal or (isinstance(base, type) and issubclass(base, (str, enum.Enum))):
        return {"text"}
    if base is bool:
        return {"flag"}
    if base is int:
        return {"flag", "integer"}
    if base is float:
        return {"flag", "integer", "number"}
    if base is list:
        return {"list"}
    if base is dict:
        return {"map"}
    return set()


def plain(value):
    if isinstance(value, enum.Enum):
        return value.value
    return value if isinstance(value, (bool, int, float, str, list, dict)) else None


def trl_values():
    from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser

    classes = (ScriptArguments, SFTConfig, ModelConfig)
    kinds = {}
    for one in classes:
        hints = typing.get_type_hints(one)
        for field in dataclasses.fields(one):
            if field.init and not field.name.startswith("_"):
                kinds.setdefault(field.name, set()).update(kinds_of(hints[field.name]))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "c.yml"
        # Without `use_cpu` it refuses a machine without a GPU; no default depends on it.
        path.write_text("model_name_or_path: m\ndataset_name: d\nuse_cpu: true\n", encoding="utf-8")
        parsed = TrlParser(classes).parse_args_and_config(["--config", str(path)])
    given = ("model_name_or_path", "dataset_name", "use_cpu")
    defaults = {}
    for one in parsed:
        for field in dataclasses.fields(one):
            if field.name in kinds and field.name not in given:
                defaults[field.name] = plain(getattr(one, field.name))
    order = list(KINDS)
    return {name: " ".join(sorted(found, key=order.index)) for name, found in sorted(kinds.items())}, dict(sorted(defaults.items()))


def lines(table):
    return "{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items()) + "}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.path.insert(0, sys.argv[1])
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    logging.disable(logging.CRITICAL)
    kinds, defaults = trl_values()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("axolotl", "trl", "transformers"))
    GOLDEN.write_text(f'{{"versions": "{versions}",\n"axolotl": {lines(axolotl_kinds())},\n"trl": {lines(kinds)},\n'
                      f'"trl_defaults": {lines(defaults)}}}\n', encoding="utf-8")
    print(len(kinds), "keys of TRL")


if __name__ == "__main__":
    main()
