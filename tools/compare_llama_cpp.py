"""Compares a model folder in Spillway with its export in llama.cpp: token ids of texts, and greedy answers.

Run with tools/llama_cpp_requirements.txt installed:
    python tools/compare_llama_cpp.py SPILLWAY MODEL FILE.gguf TEXTS.jsonl [MAX_NEW_TOKENS]
TEXTS.jsonl holds a JSON string a line. Prints, for each, how many ids of the greedy answers agree before the first that
differs, and ends with status 1 where token ids of a text differ.
"""
import json
import subprocess
import sys
import tempfile
import urllib.request

import xllamacpp

spillway, model, file, texts_file = sys.argv[1:5]
count = int(sys.argv[5]) if len(sys.argv) > 5 else 48
with open(texts_file, encoding="utf-8") as lines:
    texts = [json.loads(line) for line in lines]

params = xllamacpp.CommonParams()
params.model.path = file
params.n_ctx = 2048
params.n_parallel = 1
params.warmup = False
params.verbosity = 0
server = xllamacpp.Server(params)


def ask(path, body):
    request = urllib.request.Request(
        server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def ours(*arguments):
    result = subprocess.run([spillway, *arguments], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


differing = agreed = total = 0
ids = [line["ids"] for line in ours("tokenize", model, "--lines", texts_file, "--json-lines")]
for text, expected in zip(texts, ids):
    got = ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
    if got != expected:
        differing += 1
        print("differs:", json.dumps(text), expected, got)
print(f"{len(texts) - differing} of {len(texts)} texts have the same ids")

prompts = [(text, prompt) for text, prompt in zip(texts, ids) if prompt]
with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
    lines.writelines(json.dumps({"prompt": text}) + "\n" for text, _ in prompts)
    lines.flush()
    options = ["--temperature", "0", "--max-new-tokens", str(count), "--json-lines"]
    answers = ours("generate", model, "--lines", lines.name, *options)
for (text, prompt), answer in zip(prompts, answers):
    expected = answer["ids"]
    got = ask(
        "/completion",
        {"prompt": prompt, "n_predict": count, "temperature": 0, "return_tokens": True, "cache_prompt": False},
    )["tokens"]
    same = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    agreed += same
    total += len(expected)
    print(f"{same} of {len(expected)} ids agree: {json.dumps(text[:40])}")
print(f"{agreed} of {total} ids agree before the first that differs")
sys.exit(differing > 0)
