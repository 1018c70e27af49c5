#!/usr/bin/env python3
"""Writes tests/golden/rows/nulls/: rows with tools as the datasets library writes them to JSON lines, Parquet and Arrow, where every object of a
column has the same keys, and as it writes them with its Json type; and the texts that transformers renders of them without these nulls.

Needs transformers, datasets, pyarrow and trl, whose remove_none_values says which nulls are not content (axolotl has a function of the same name).
"""
import json
import pathlib
import shutil

import pyarrow.parquet
from datasets import Dataset, load_dataset
from transformers import PreTrainedTokenizerFast
from trl.trainer.utils import remove_none_values

ROWS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "rows"
OUT = ROWS / "nulls"

# Shows all that it is given: tools, calls with their arguments, and the keys of each part of a list of contents.
TEMPLATE = ("{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
            "{% if m.content is string %}{{ m.content }}{% elif m.content %}{% for part in m.content %}{{ '<image>' if 'image' in part else part.text }}{% endfor %}{% endif %}"
            "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}")


def tool(name, parameters):
    return {"type": "function", "function": {"name": name, "description": f"{name} of it", "parameters": {"type": "object", "properties": parameters}}}


def call(name, arguments):
    return {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}


def user(text):
    return {"role": "user", "content": text}


SOURCE = [
    {"messages": [user("Weather in Oslo?"), call("weather", {"city": "Oslo"}), {"role": "tool", "name": "weather", "content": "21 degrees"}, {"role": "assistant", "content": "It is warm."}],
     "tools": [tool("weather", {"city": {"type": "string", "enum": ["Oslo", "Rome"]}})]},
    {"messages": [user("Price of X?"), call("stock", {"ticker": "X", "days": 2}), {"role": "tool", "name": "stock", "content": "12.5"}, {"role": "assistant", "content": "It costs 12.5."}],
     "tools": [tool("stock", {"ticker": {"type": "string"}, "days": {"type": "integer", "default": 1}}), tool("now", {})]},
    {"messages": [user("Hello there"), {"role": "assistant", "content": "Hi, how are you?"}], "tools": None},
]
PARTS = [{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}]}, {"role": "assistant", "content": [{"type": "text", "text": "A fox."}]}]},
         {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}, {"role": "assistant", "content": [{"type": "text", "text": "A dog."}]}]}]


def write_all(name, rows):
    table = Dataset.from_list(rows)
    table.to_json(OUT / f"{name}.jsonl")
    table.to_parquet(OUT / f"{name}.parquet")
    table.save_to_disk(OUT / "saved")
    (next((OUT / "saved").glob("*.arrow"))).rename(OUT / f"{name}.arrow")
    shutil.rmtree(OUT / "saved")
    return table


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(ROWS))
    table = write_all("tools", SOURCE)
    assert '"ticker":null' in (OUT / "tools.jsonl").read_text()
    # Read from lines in which keys differ, the library keeps the objects as JSON.
    (OUT / "source.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SOURCE))
    typed = load_dataset("json", data_files=str(OUT / "source.jsonl"), split="train", cache_dir=str(OUT / "cache"))
    typed.to_parquet(OUT / "json.parquet")
    assert "arrow.json" in str(pyarrow.parquet.read_table(OUT / "json.parquet").schema)
    shutil.rmtree(OUT / "cache")
    (OUT / "source.jsonl").unlink()
    parts = write_all("parts", PARTS)
    texts = {name: [tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), chat_template=TEMPLATE, tokenize=False)
                    for row in (remove_none_values(row) for row in rows)] for name, rows in (("tools", table), ("parts", parts))}
    (OUT / "texts.json").write_text(json.dumps({"template": TEMPLATE, "texts": texts}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
