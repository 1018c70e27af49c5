#!/usr/bin/env python3
"""Lists the config keys that axolotl and TRL declare, one per line: what tests/golden/config_keys/ holds.

    pip download axolotl --no-deps && unzip axolotl-*.whl -d axolotl_wheel
    tools/list_config_keys.py axolotl axolotl_wheel > tests/golden/config_keys/axolotl.txt
    tools/list_config_keys.py trl SITE_PACKAGES     > tests/golden/config_keys/trl.txt

The sources are read, never run, so nothing but the packages' files is needed: a key is an annotated name in the body of
a class. Nested sections are written with dots, the entries of a list with `*` (`datasets.*.path`).
"""

import ast
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
            "trl/experimental/orpo/*_config.py",
            "trl/experimental/kto/*_config.py",
            "trl/scripts/utils.py",
            "transformers/training_args.py",
        ],
        "roots": [
            "SFTConfig", "DPOConfig", "KTOConfig", "ORPOConfig", "GRPOConfig", "RewardConfig", "RLOOConfig",
            "ModelConfig", "ScriptArguments", "DatasetMixtureConfig",
        ],
        "plugin_modules": None,
        "distributions": ["trl", "transformers"],
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


class Classes:
    def __init__(self, folder, patterns):
        self.found = {}
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                for node in ast.parse(path.read_text(encoding="utf-8")).body:
                    if isinstance(node, ast.ClassDef):
                        self.found.setdefault(node.name, (node, path))

    def fields(self, name):
        """Field -> annotation, those of base classes first."""
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
            fields[line.target.id] = line.annotation
            if alias := alias_of(line.value):
                fields[alias] = line.annotation
        return fields

    def keys(self, name, prefix="", above=()):
        for field, annotation in self.fields(name).items():
            key = prefix + field
            nested = [one for one in names_in(annotation) if one in self.found and self.fields(one)]
            nested = [one for one in nested if one not in above]
            if not nested:
                yield key
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
        nested = {one for name in classes.found for field in classes.fields(name).values() for one in names_in(field)}
        roots += [
            name
            for name, (_, path) in classes.found.items()
            if program["plugin_modules"] in path.parts and name.endswith("Args") and name not in nested
        ]
    for root in roots:
        if root not in classes.found:
            sys.exit(f"no class {root} below {folder}")
    keys = {key for root in roots for key in classes.keys(root)}
    print("#", ", ".join(version_of(folder, one) for one in program["distributions"]))
    print("\n".join(sorted(keys)))


if __name__ == "__main__":
    main()
