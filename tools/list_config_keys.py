#!/usr/bin/env python3
"""Lists the config keys that axolotl, TRL and transformers declare, with their defaults: tests/golden/config_keys/.

    pip download axolotl --no-deps && unzip axolotl-*.whl -d axolotl_wheel    # and so on
    tools/list_config_keys.py axolotl axolotl_wheel            > tests/golden/config_keys/axolotl.txt
    tools/list_config_keys.py trl SITE_PACKAGES                > tests/golden/config_keys/trl.txt
    tools/list_config_keys.py transformers4 transformers_wheel > tests/golden/config_keys/transformers4.txt

A line is `key`, or `key = DEFAULT` with the default as JSON where the source says a constant. The sources are read, never
run, so nothing but the packages' files is needed: a key is an annotated name in the body of a class. Nested sections are
written with dots, the entries of a list with `*` (`datasets.*.path`).
"""

import ast
import json
import pathlib
import re
import sys

# Per program: the modules that are read, the classes whose fields are the config's keys, and where the version is found.
PROGRAMS = {
    "axolotl": {
        "modules": ["axolotl/utils/schemas/*.py", "axolotl/integrations/*/args.py"],
        "roots": ["AxolotlInputConfig", "AxolotlConfigWCapabilities"],
        # A plugin adds the fields of its own arguments to the config.
        "plugin_modules": "integrations",
        "distributions": ["axolotl"],
    },
    "trl": {
        "modules": [
            "trl/trainer/*_config.py",
            "trl/experimental/*/*_config.py",
            "trl/scripts/utils.py",
            "transformers/training_args.py",
        ],
        "roots": [
            "SFTConfig", "DPOConfig", "KTOConfig", "ORPOConfig", "GRPOConfig", "RewardConfig", "RLOOConfig",
            "CPOConfig", "OnlineDPOConfig", "ModelConfig", "ScriptArguments", "DatasetMixtureConfig",
        ],
        "plugin_modules": None,
        "distributions": ["trl", "transformers"],
    },
    # Before 5, where several fields went.
    "transformers4": {
        "modules": ["transformers/training_args.py"],
        "roots": ["TrainingArguments"],
        "plugin_modules": None,
        "distributions": ["transformers"],
    },
}


def names_in(node):
    """Names of an annotation, those in quotes too."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.isprintable():
            yield from re.findall(r"\w+", child.value)


def is_list(node):
    return any(name in ("list", "List", "Sequence") for name in names_in(node))


def alias_of(value):
    """The `alias` of `Field(alias=...)`: the name that a config file uses."""
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg == "alias" and isinstance(keyword.value, ast.Constant):
                return keyword.value.value
    return None


def constant(node):
    """The JSON of a constant, and of an enumeration's member, whose value is its name in small letters; None for others."""
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return json.dumps(node.attr.lower())
    try:
        return json.dumps(ast.literal_eval(node))
    except (ValueError, TypeError):
        return None


def default_of(value):
    """The default that `= value` declares: of itself, or of `field(default=...)` and `Field(...)`."""
    if not isinstance(value, ast.Call):
        return None if value is None else constant(value)
    if value.args and isinstance(value.func, ast.Name) and value.func.id == "Field":
        return constant(value.args[0])
    for keyword in value.keywords:
        if keyword.arg == "default":
            return constant(keyword.value)
        if keyword.arg == "default_factory" and isinstance(keyword.value, ast.Name):
            return {"list": "[]", "dict": "{}"}.get(keyword.value.id)
    return None


class Classes:
    def __init__(self, folder, patterns):
        self.found = {}
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                for node in ast.parse(path.read_text(encoding="utf-8")).body:
                    if isinstance(node, ast.ClassDef):
                        self.found.setdefault(node.name, (node, path))

    def fields(self, name):
        """Field -> annotation and default, those of base classes first."""
        if name not in self.found:
            return {}
        fields = {}
        node, _ = self.found[name]
        for base in reversed(node.bases):
            for base_name in names_in(base):
                fields.update(self.fields(base_name))
        for line in node.body:
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            if line.target.id.startswith("_") or "ClassVar" in names_in(line.annotation):
                continue
            fields[line.target.id] = line.annotation, default_of(line.value)
            if alias := alias_of(line.value):
                fields[alias] = fields[line.target.id]
        return fields

    def keys(self, name, prefix="", above=()):
        for field, (annotation, default) in self.fields(name).items():
            key = prefix + field
            nested = [one for one in names_in(annotation) if one in self.found and self.fields(one)]
            nested = [one for one in nested if one not in above]
            if not nested:
                yield key, default
            for one in nested:
                inner = key + (".*." if is_list(annotation) else ".")
                yield from self.keys(one, inner, above + (name, one))


def version_of(folder, distribution):
    for path in folder.glob(f"{distribution}-*.dist-info/METADATA"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("Version: "):
                return f"{distribution} {line.removeprefix('Version: ')}"
    sys.exit(f"no {distribution} in {folder}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in PROGRAMS:
        sys.exit(__doc__)
    program, folder = PROGRAMS[sys.argv[1]], pathlib.Path(sys.argv[2])
    classes = Classes(folder, program["modules"])
    roots = list(program["roots"])
    if program["plugin_modules"]:
        nested = {one for name in classes.found for field, _ in classes.fields(name).values() for one in names_in(field)}
        roots += [
            name
            for name, (_, path) in classes.found.items()
            if program["plugin_modules"] in path.parts and name.endswith("Args") and name not in nested
        ]
    for root in roots:
        if root not in classes.found:
            sys.exit(f"no class {root} below {folder}")
    # If a key has several defaults (the learning rates of TRL's trainers), the first stands.
    keys = {}
    for root in roots:
        for key, default in classes.keys(root):
            keys.setdefault(key, default)
    print("#", ", ".join(version_of(folder, one) for one in program["distributions"]))
    for key, default in sorted(keys.items()):
        print(key if default in (None, "null") else f"{key} = {default}")


if __name__ == "__main__":
    main()
