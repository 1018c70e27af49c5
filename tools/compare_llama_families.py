"""Compares greedy ids of a tiny random model of each family in transformers with those of its export in llama.cpp.

Run with tools/llama_cpp_requirements.txt, torch and transformers installed:
    python tools/compare_llama_families.py SPILLWAY [FAMILY ...]
The families are those of tests/golden/export/families.json, with more tokens. Then the sixth of the ids becomes the
end: llama.cpp must stop there. Ends with status 1 where an id differs.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import torch
import transformers
import xllamacpp

root = pathlib.Path(__file__).parent.parent
export = root / "tests" / "golden" / "export"
families = json.loads((export / "families.json").read_text())
spillway, wanted = sys.argv[1], sys.argv[2:] or list(families)
# llama.cpp knows no window of Phi-3, and takes Phi-4's long factors where its context is longer than the original one.
families["phi3"]["config"]["sliding_window"] = None
families["phi4"]["config"]["original_max_position_embeddings"] = 4
families["phi4"]["config"]["rope_parameters"]["original_max_position_embeddings"] = 4
# It rounds the bounds of gpt-oss's rope.
families["gpt_oss"]["config"]["rope_parameters"]["truncate"] = True
ROWS, COUNT, PROMPT, END = 269, 24, [40, 71, 10, 100, 33, 66, 5, 90], 6


def random_model(family, folder):
    config = json.loads(json.dumps(family["config"]))
    of_text = config.get("text_config", config)
    of_text["vocab_size"] = ROWS
    if "vocab_size_per_layer_input" in of_text:
        of_text["vocab_size_per_layer_input"] = ROWS
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(1)
    model = getattr(transformers, config["architectures"][0])(transformers.AutoConfig.from_pretrained(folder)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.3)
            if name.endswith("norm.weight") or "layernorm" in name:
                parameter.add_(1 - ("gemma" in config["model_type"]))
        for name, buffer in model.named_buffers():
            if name.endswith("bias"):  # of routers
                buffer.normal_(0, 0.3)
    model.save_pretrained(folder)
    config.pop("eos_token_id", None)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(export / "qwen2" / name, folder / name)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("eos_token")
    settings.pop("pad_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").unlink(missing_ok=True)
    return model


def greedy(model, count):
    ids, margin = list(PROMPT), []
    with torch.no_grad():
        for _ in range(count):
            best = model(input_ids=torch.tensor([ids])).logits[0, -1].float().topk(2)
            margin.append(float(best.values[0] - best.values[1]))
            ids.append(int(best.indices[0]))
    return ids[len(PROMPT) :], margin


def in_llama_cpp(file, count):
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx = 64
    params.n_parallel = 1
    params.warmup = False
    params.verbosity = 0
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    body = {"prompt": PROMPT, "n_predict": count, "temperature": 0, "return_tokens": True, "cache_prompt": False}
    request = urllib.request.Request(
        server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def run(name, folder):
    model = random_model(families[name], folder)
    expected, margin = greedy(model, COUNT)
    file = folder.parent / f"{name}.gguf"
    subprocess.run([spillway, "export", str(folder), "--gguf", str(file), "--type", "f32"], check=True, capture_output=True)
    got = in_llama_cpp(file, COUNT)["tokens"]
    same = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    closest = "" if same == COUNT else f", the two best of the next are {margin[same]:.2g} apart"
    if len(got) < COUNT and same == len(got):
        closest = ", and llama.cpp ended there"
    config = json.loads((folder / "config.json").read_text())
    config.get("text_config", config)["eos_token_id"] = config["eos_token_id"] = expected[END - 1]
    (folder / "config.json").write_text(json.dumps(config))
    file.unlink()
    subprocess.run([spillway, "export", str(folder), "--gguf", str(file), "--type", "f32"], check=True, capture_output=True)
    ended = in_llama_cpp(file, COUNT)
    first = expected.index(expected[END - 1])
    ends = ended.get("stop_type") == "eos" and ended["tokens"][: first] == expected[: first]
    return same, f"{same} of {COUNT} ids agree{closest}; {'stops' if ends else 'DOES NOT STOP'} at the end"


def report(name):
    with tempfile.TemporaryDirectory() as temporary:
        try:
            # The folder's name becomes general.name, by which llama.cpp expects the tokens of Phi-3.
            same, text = run(name, pathlib.Path(temporary) / "tiny")
        except subprocess.CalledProcessError as error:
            same, text = 0, error.stderr.decode().strip()
        print(f"{name}: {text}", flush=True)
    os._exit(same < COUNT)


torch.set_num_threads(1)
failed = 0
for name in wanted:
    child = os.fork()  # llama.cpp aborts where it cannot go on
    if child == 0:
        report(name)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed > 0)
