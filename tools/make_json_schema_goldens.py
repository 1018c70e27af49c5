#!/usr/bin/env python3
"""Writes tests/golden/json_schemas.json: JSON schemas, and documents that are valid under each and that are not.

The documents are drawn at random from the schemas, and changed at random; what they are is the word of the library
jsonschema. Of those that are valid, it keeps only such as are written as src/text/grammar/json_schema.h writes them.

    pip install jsonschema==4.26.0 rfc3339-validator==0.1.4
    python3 tools/make_json_schema_goldens.py
"""
import copy
import json
import pathlib
import random

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS, KEPT = 60, 40
SCHEMAS = {
    "flat": {"type": "object", "title": "A person", "additionalProperties": False, "required": ["name", "age"],
             "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                            "e-mail": {"type": ["string", "null"]}, "tags": {"type": "array", "items": {"type": "string"}}}},
    "lengths": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "minLength": 1, "maxLength": 4}},
    "long": {"type": "array", "minItems": 2, "items": {"type": "boolean"}},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}},
    "exact tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
    "tree": {"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object", "properties": {"value": {"type": "number"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["value", "children"], "additionalProperties": False}}},
    "optional": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
                 "required": ["b"], "additionalProperties": False},
    "more": {"type": "object", "properties": {"name": {"type": "string"}, "nature": {"type": "null"}},
             "required": ["name"], "additionalProperties": {"type": "integer"}},
    "map": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer", "exclusiveMinimum": -3}}},
    "unlisted": {"type": "object", "properties": {}, "required": ["id"], "additionalProperties": {"type": "string"}},
    "enum": {"enum": ["red", "gr\u00fcn", 3, None, {"a": [1, 2]}]},
    "enum of a type": {"type": "string", "enum": ["red", 3, "blue"]},
    "const": {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
              "required": ["kind", "r"], "additionalProperties": False},
    "any": {"anyOf": [{"type": "integer", "minimum": -25, "maximum": 1003}, {"type": "array", "items": {"type": "integer"}},
                      {"type": "array", "items": {"type": "string"}}]},
    "one": {"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind", "lives"],
         "additionalProperties": False},
        {"type": "object", "properties": {"kind": {"enum": ["dog", "fox"]}, "tail": {"type": "boolean"}}, "required": ["kind", "tail"],
         "additionalProperties": False}, {"type": "null"}]},
    "all": {"allOf": [{"type": "integer", "exclusiveMaximum": 100, "minimum": 98.5}]},
    "formats": {"type": "object", "properties": {"day": {"type": "string", "format": "date"}, "id": {"type": "string", "format": "uuid"},
                                                 "at": {"type": "string", "format": "date-time"}},
                "required": ["day", "id", "at"], "additionalProperties": False},
    "anything": True,
    "an object": {"type": "object"},
}
STRINGS = ["", "a", "gr\u00fcn", "\U0001f600", 'q"\\', "line\nbreak", "abcde", "2024-02-28", "2023-02-29", "2024-13-01", "red", "cat", "dog",
           "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-a456-42661417400", "2024-05-06T07:08:09Z",
           "2024-05-06T24:08:09Z", "2024-05-06T07:08:09.25+02:00", "\u0000"]
NAMES = ["extra", "nam", "names", "na", "", "\u00fc", "id", "kind"]


def any_value(rng, depth=2):
    kind = rng.randrange(8 if depth > 0 else 6)
    if kind < 6:
        return [None, rng.random() < 0.5, rng.randrange(-30, 140), rng.choice([0.5, -1.25, 1e-7, 12.5]), rng.choice(STRINGS),
                rng.choice([0, 98, 99, 100, 1003, 1004, -25, -26])][kind]
    if kind == 6:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(NAMES): any_value(rng, depth - 1) for _ in range(rng.randrange(3))}


def draw(schema, root, rng, depth=4):
    """Returns a document that is valid most of the time."""
    if schema is True or schema == {} or rng.random() < 0.02:
        return any_value(rng)
    if "$ref" in schema:
        return draw(root["$defs"]["node"], root, rng, depth)
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return draw(rng.choice(schema[name]), root, rng, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return copy.deepcopy(rng.choice(schema["enum"]))
    kind = schema.get("type", "string")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        result = {}
        for name, value in schema.get("properties", {}).items():
            if name in schema.get("required", []) or rng.random() < 0.5:
                result[name] = draw(value, root, rng, depth - 1)
        more = schema.get("additionalProperties", True)
        for name in schema.get("required", []):
            if name not in result:
                result[name] = draw(more, root, rng, depth - 1)
        if more is not False and rng.random() < 0.7:
            for name in rng.sample(NAMES, 2):
                if name not in result and name not in schema.get("properties", {}):
                    result[name] = draw(more, root, rng, depth - 1)
        return result
    if kind == "array":
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        count = rng.randrange(schema.get("minItems", 0), schema.get("maxItems", 4) + 1) if depth > 0 else schema.get("minItems", 0)
        count = max(count, 0) if rest is not False else rng.randrange(len(first) + 1)
        return [draw(first[i] if i < len(first) else rest, root, rng, depth - 1) for i in range(count)]
    if kind == "integer":
        return rng.choice([rng.randrange(-30, 140), rng.randrange(-1100, 1100), 99])
    if kind == "number":
        return rng.choice([0, -3, 2.5, 1e-7, 1250.0, 3e20])
    if kind == "string":
        if schema.get("format") == "date":
            return rng.choice(STRINGS[7:10])
        if schema.get("format") == "uuid":
            return rng.choice(STRINGS[13:15])
        if schema.get("format") == "date-time":
            return rng.choice(STRINGS[15:18])
        return rng.choice(STRINGS)
    return None if kind == "null" else rng.random() < 0.5


def places(document):
    """Yields the containers of a document."""
    if isinstance(document, (dict, list)):
        yield document
        for value in document.values() if isinstance(document, dict) else document:
            yield from places(value)


def changed(document, rng):
    document = copy.deepcopy(document)
    containers = [one for one in places(document) if one]
    if not containers:
        return any_value(rng)
    one = rng.choice(containers)
    key = rng.choice(list(one)) if isinstance(one, dict) else rng.randrange(len(one))
    if rng.random() < 0.3:
        del one[key]
    else:
        one[key] = any_value(rng, 1)
    return document


def text_of(document, rng):
    return json.dumps(document, ensure_ascii=rng.random() < 0.2, indent=2 if rng.random() < 0.2 else None,
                      separators=rng.choice([None, (",", ":")]))


def is_written_otherwise(text):
    """Returns true for escapes that the grammar does not write: of surrogates, and in names and values that are given."""
    return "\\ud83d" in text or "\\u00fc" in text


def main():
    rng = random.Random(1)
    result = []
    for name, schema in SCHEMAS.items():
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        texts = {True: set(), False: set()}
        for _ in range(DOCUMENTS):
            document = draw(schema, schema, rng)
            for one in (document, changed(document, rng)):
                text = text_of(one, rng)
                if not is_written_otherwise(text):
                    texts[validator.is_valid(json.loads(text))].add(text)
            text = list(text_of(document, rng))
            at = rng.randrange(len(text))
            text[at] = rng.choice(["", text[at] * 2, "}", ",", " "])
            text = "".join(text)
            try:
                is_valid = validator.is_valid(json.loads(text))
            except json.JSONDecodeError:
                is_valid = False
            if not is_valid:
                texts[False].add(text)
        result.append({"name": name, "schema": schema, "valid": sorted(texts[True])[:KEPT], "invalid": sorted(texts[False])[:KEPT]})
        print(f"{name}: {len(texts[True])} valid, {len(texts[False])} invalid")
    lines = ",\n".join(json.dumps(one, ensure_ascii=True) for one in result)
    (ROOT / "tests/golden/json_schemas.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
