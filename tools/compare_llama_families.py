"""Compares greedy ids of a tiny random model of each family in transformers with those of its export in llama.cpp.

Run with tools/llama_cpp_requirements.txt, torch, transformers and peft installed:
    python tools/compare_llama_families.py SPILLWAY [FAMILY ...]
The families are those of tests/golden/export/families.json, with more tokens. Special tokens are made by neither, since
llama.cpp ends at those whose text it knows. Then the sixth of the ids becomes the end: llama.cpp must stop there. Then
a mixture gets a random adapter of PEFT on all its experts and routers, which llama.cpp reads as a file beside
the model's.
Ends with status 1 where an id differs but by a tie: where the two best logits are less than 0.01 apart.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import peft
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
ROWS, COUNT, PROMPT, END, TIE = 269, 24, [40, 71, 10, 100, 33, 66, 5, 90], 6, 0.01
BARRED = sorted(token["id"] for token in json.loads((export / "qwen2" / "tokenizer.json").read_text())["added_tokens"])


def set_end(folder, config, token):
    config.get("text_config", config)["eos_token_id"] = config["eos_token_id"] = token
    (folder / "config.json").write_text(json.dumps(config))


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
    set_end(folder, config, BARRED[0])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(export / "qwen2" / name, folder / name)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["eos_token"], settings["pad_token"]  # the end is that of config.json
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").unlink(missing_ok=True)
    return model


def greedy(model, count):
    ids, margin = list(PROMPT), []
    with torch.no_grad():
        for _ in range(count):
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1].float()
            logits[BARRED] = -torch.inf
            best = logits.topk(2)
            margin.append(float(best.values[0] - best.values[1]))
            ids.append(int(best.indices[0]))
    return ids[len(PROMPT) :], margin


def in_llama_cpp(file, count, adapter=None):
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    if adapter:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    params.n_ctx = 64
    params.n_parallel = 1
    params.warmup = False
    params.verbosity = 0
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(params)
    body = {"prompt": PROMPT, "n_predict": count, "temperature": 0, "return_tokens": True, "cache_prompt": False}
    body["logit_bias"] = [[token, False] for token in BARRED]
    request = urllib.request.Request(
        server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def export_model(folder, *where):
    command = [spillway, "export", str(folder), *map(str, where), "--type", "f32"]
    subprocess.run(command, check=True, capture_output=True)


def compared(expected, margin, got):
    """Says whether ids agree, up to the first tie, and how."""
    same = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    if same == COUNT:
        return True, f"{same} of {COUNT} ids agree"
    if same == len(got):
        return False, f"{same} of {COUNT} ids agree, and llama.cpp ended there"
    is_tie = margin[same] < TIE
    return is_tie, f"{same} of {COUNT} ids agree, the two best of the next are {margin[same]:.2g} apart" + ", a tie" * is_tie


def with_adapter(model, folder):
    """The model with factors of all experts and routers, which go into the folder; None where it has no tensors of experts."""
    names = [n for n, p in model.named_parameters() if ".experts." in n and p.dim() == 3]
    # llama.cpp does not apply Gemma 4's scales of experts to what factors add, and export refuses these.
    has_scales = any(n.endswith("per_expert_scale") for n, _ in model.named_parameters())
    experts = [n for n in names if not (has_scales and n.endswith("down_proj"))]
    if not experts:
        return None
    # PEFT matches the ends of names, which are the same in all layers.
    targets = sorted({name[name.index(".experts.") + 1 :] for name in experts})
    ends = (".gate.weight", ".router.weight", ".router.proj.weight", ".router.layer.weight")
    routers = [n for n, p in model.named_parameters() if n.endswith(ends) and p.dim() == 2]
    targets += sorted({".".join(name.split(".")[-3:]) for name in routers})
    settings = peft.LoraConfig(r=4, lora_alpha=6, target_modules=[], target_parameters=targets)
    adapted = peft.get_peft_model(model, settings)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if ".lora_" in name:
                parameter.normal_(0, 0.5)
    adapted.save_pretrained(folder)
    return adapted.eval()


def run(name, folder):
    model = random_model(families[name], folder)
    expected, margin = greedy(model, COUNT)
    file = folder.parent / f"{name}.gguf"
    export_model(folder, "--gguf", file)
    is_right, text = compared(expected, margin, in_llama_cpp(file, COUNT)["tokens"])

    adapted = with_adapter(model, folder.parent / "adapter")
    if adapted:
        lora = folder.parent / "lora.gguf"
        export_model(folder, "--adapter", folder.parent / "adapter", "--lora-gguf", lora)
        of_adapted = greedy(adapted, COUNT)
        fits, how = compared(*of_adapted, in_llama_cpp(file, COUNT, lora)["tokens"])
        is_right = is_right and fits and of_adapted[0] != expected
        text += f"; with an adapter of experts {how}" + ", AS WITHOUT IT" * (of_adapted[0] == expected)

    set_end(folder, json.loads((folder / "config.json").read_text()), expected[END - 1])
    file.unlink()
    export_model(folder, "--gguf", file)
    ended = in_llama_cpp(file, COUNT)
    first = expected.index(expected[END - 1])
    ends = ended.get("stop_type") == "eos" and ended["tokens"][:first] == expected[:first]
    return is_right and ends, f"{text}; {'stops' if ends else 'DOES NOT STOP'} at the end"


def report(name):
    with tempfile.TemporaryDirectory() as temporary:
        try:
            # The folder's name becomes general.name, by which llama.cpp expects the tokens of Phi-3.
            is_right, text = run(name, pathlib.Path(temporary) / "tiny")
        except subprocess.CalledProcessError as error:
            is_right, text = False, error.stderr.decode().strip()
        print(f"{name}: {text}", flush=True)
    os._exit(not is_right)


torch.set_num_threads(1)
failed = 0
for name in wanted:
    child = os.fork()  # llama.cpp aborts where it cannot go on
    if child == 0:
        report(name)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed > 0)
