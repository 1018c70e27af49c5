#!/usr/bin/env python3
"""Writes tests/golden/models: tiny random models and what transformers, torch and peft make of them.

    pip install torch transformers peft safetensors     # made with torch 2.15, transformers 5.23 and 5.24, peft 0.21
    python tools/make_model_goldens.py tests/golden/models
    python tools/make_model_goldens.py tests/golden/models --only granite,olmo2     # these folders; nothing else is touched

Every number is computed on the CPU in float32 with eager attention, from the folder as it lies on disk. A batch is a list
of sequences that run one by one, so nothing here depends on padding, packing or position arithmetic of ours.

    batches.json             {"check": BATCH, "train": [[BATCH, ...] a step]}; BATCH = [{"input_ids", "labels"} a sequence]
    rope.json                [{"name", "config" (parts of a config.json), "inv_freq", "long_inv_freq" of longrope,
                             "attention_factor"}]
    NAME/                    a Hugging Face folder: config.json, safetensors
    NAME/golden.json         loss, gradient norms, training curves, greedy generation (see `make_goldens`)
    NAME/golden_grads.safetensors, NAME/golden_full.safetensors    for FULL_DETAIL: gradients and final weights, complete
    NAME/golden_dft.json     for DFT: loss and training where each token's loss counts by its probability (TRL's loss_type dft)
    NAME/golden_eaft.json    for EAFT: the same where it counts by the entropy of the likeliest tokens (axolotl's use_eaft)
    NAME/golden_balance.json    for BALANCED: loss and training with output_router_logits and that router_aux_loss_coef; its
                             "aux_loss" is that of a micro-batch, and its gradient a mean over those of a step (TRL)
    NAME/golden_dequantised.safetensors    for FP8: what codes stand for, in bf16
    NAME/golden_routes.json    for ROUTED: of each micro-batch, its tokens and the experts of each layer that they reach
    NAME/adapter/            a PEFT folder to start LoRA from
    NAME/adapter_rslora/     the same numbers with use_rslora, for one model
    NAME/golden_lora.safetensors       the adapter after training, for FULL_DETAIL
    NAME/golden_padded.json    for PADDED: loss, gradient norms, training, and the final `row` of the embedding, where
                             config.json's pad_token_id is a token that occurs in the text
    NAME/golden_saved_padded.json    the same with what adapter_saved trains in full
    NAME/adapter_experts/, NAME/golden_experts.json    for EXPERTS: LoRA on attention, routers and experts, which for most
                                       is what PEFT's "all-linear" means; "merged" is what merge_and_unload makes of it
    NAME/adapter_saved/, NAME/golden_saved.json    for SAVED: LoRA beside modules that are trained in full, perhaps with
                                       new rows of the embedding; "merged" is what merge_and_unload makes of the adapter
"""

import argparse
import json
import shutil
import tempfile
import zlib
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from golden_batches import make_batches
from golden_model_folders import FP8, MXFP4, STACKED_HERE, dequantised_fp8, load, write_model
from golden_model_specs import VOCAB, model_specs
from golden_rope import rope_goldens
from golden_training import (as_in_files, check_values, compact, digest, greedy, load_balancing_loss, probability,
                             sum_of_losses, top_entropy, train, trainable)

NUMBERED = 12  # the first models, whose seed is their place
FULL_DETAIL = {"llama2", "llama32", "qwen3"}
DFT = {"llama2", "gemma2"}
EAFT = {"gemma2"}
BALANCED = {"qwen3_moe": 0.5, "mixtral": 0.5, "minimax_m2": 0.5, "jamba": 0.5}
ROUTED = {"qwen3_moe"}
# A token that occurs often in the batches, and the last row of the table; see `padded_goldens`.
PADDED = {"llama2": 71, "llama32": 71, "gemma": 71, "qwen3": -1}
PADDED_SAVED = {"llama2": 71}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT = ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
# Everything else: PEFT's "all-linear", which means the experts and routers of these mixtures, but not of Qwen2's.
LORA_TARGETS = {"llama32": ["q_proj", "v_proj", "down_proj"], "qwen3_moe": ATTENTION, "qwen3_moe_fp8": ATTENTION, "mixtral": ATTENTION, "olmoe": ATTENTION, "glm4_moe": ATTENTION, "minimax_m2": ATTENTION, "afmoe": ATTENTION,
                "deepseek_v2": ["q_proj", *LATENT], "deepseek_v3": ["q_a_proj", "q_b_proj", *LATENT],
                "glm4_moe_lite": ["q_a_proj", "q_b_proj", *LATENT], "mistral4": ["q_a_proj", "q_b_proj", *LATENT],
                # PEFT's all-linear but for dt_proj, whose factors nothing reads.
                "jamba": ["in_proj", "x_proj", "out_proj", *ATTENTION, "gate_proj", "up_proj", "down_proj"],
                # PEFT's all-linear but for out_proj, which it refuses beside these state spaces.
                "nemotron_h": ["in_proj", *ATTENTION, "up_proj", "down_proj"],
                **dict.fromkeys(("falcon_h1", "falcon_h1_tied"), ["in_proj", *ATTENTION, "gate_proj", "up_proj", "down_proj"]),
                "nemotron_h_moe": ["in_proj", *ATTENTION, "up_proj", "down_proj", "fc1_latent_proj", "fc2_latent_proj"]}
# Mixtures with adapters on experts and routers.
EXPERTS = {"qwen3_moe": {}, "qwen3_moe_fp8": {}, "mixtral": {}, "olmoe": {}, "deepseek_v3": {}, "afmoe": {}, "gpt_oss_mxfp4": {
    "targets": ["q_proj", "v_proj"], "parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.router.weight"]},
           "gemma4_moe": {"targets": ["q_proj", "proj"], "parameters": ["experts.gate_up_proj", "experts.down_proj"]},
           "granitemoe": {"targets": ["v_proj"], "parameters": ["experts.gate_up_proj", "experts.down_proj", "router.weight"]},
           "jamba": {"targets": ["q_proj", "in_proj", "x_proj"],
                     "parameters": ["feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj", "feed_forward.router.weight"]},
           "lfm2_moe": {"targets": ["q_proj", "in_proj", "out_proj"],
                        "parameters": ["feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj", "feed_forward.gate.weight"]},
           "nemotron_h_moe": {"targets": ["q_proj", "in_proj"], "parameters": ["experts.up_proj", "experts.down_proj", "gate.weight"]}}
# modules_to_save, and rows of the embedding.
SAVED = {"llama2": (["embed_tokens", "norm"], VOCAB), "qwen2_tied": (["embed_tokens", "lm_head"], VOCAB + 4)}


def seed_of(name, place):
    """So that a model beside others changes none of them."""
    return place if place < NUMBERED else zlib.crc32(name.encode())


def load_with_rows(folder, rows):
    torch.manual_seed(0)
    model = load(folder)
    model.resize_token_embeddings(rows)
    return model


def write_adapter(folder, target, seed, rslora, saved=None, rows=VOCAB, targets=None, parameters=None):
    model = load_with_rows(folder, rows)
    torch.manual_seed(seed)
    adapted = peft.get_peft_model(model, peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=targets or LORA_TARGETS.get(folder.name, "all-linear"), use_rslora=rslora,
        target_parameters=parameters, modules_to_save=saved, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in trainable(adapted).items():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    save_adapter(adapted, target)


def save_adapter(adapted, target):
    adapted.save_pretrained(target)
    (target / "README.md").unlink(missing_ok=True)
    path = target / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = None
    for key in ("target_modules", "target_parameters"):
        config[key] = sorted(config[key] or [])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def lora_goldens(folder, adapter, batches, rows=VOCAB):
    adapted = peft.PeftModel.from_pretrained(load_with_rows(folder, rows), adapter, is_trainable=True).eval()
    check, _ = check_values(adapted, batches["check"])
    curve, after = train(adapted, batches["train"], learning_rate=1e-2)
    return {"check": check, "curve": curve}, after


def saved_goldens(folder, batches, seed):
    adapter, (modules, rows) = folder / "adapter_saved", SAVED[folder.name]
    write_adapter(folder, adapter, seed, rslora=False, saved=modules, rows=rows)
    golden, _ = lora_goldens(folder, adapter, batches, rows)
    merged = peft.PeftModel.from_pretrained(load_with_rows(folder, rows), adapter).merge_and_unload()
    golden["merged"] = {name: digest(torch.zeros(()), tensor) for name, tensor in merged.state_dict().items()}
    (folder / "golden_saved.json").write_text(compact(golden))


def experts_goldens(folder, batches, seed):
    adapter = folder / "adapter_experts"
    write_adapter(folder, adapter, seed, rslora=False, **{"targets": "all-linear", **EXPERTS[folder.name]})
    golden, _ = lora_goldens(folder, adapter, batches)
    merged = peft.PeftModel.from_pretrained(load(folder), adapter).merge_and_unload()
    if folder.name in MXFP4 | STACKED_HERE | {"lfm2_moe"}:
        weights = as_in_files(merged, dict(merged.named_parameters()))
    else:
        with tempfile.TemporaryDirectory() as other:
            merged.save_pretrained(other)
            weights = load_file(Path(other) / "model.safetensors")
    golden["merged"] = {name: digest(torch.zeros(()), tensor.detach()) for name, tensor in weights.items() if ".mlp." in name or "_moe." in name or ".experts." in name or ".feed_forward." in name or ".mixer." in name}
    (folder / "golden_experts.json").write_text(compact(golden))


def padded_curve(model, batches, learning_rate, name):
    """Returns what a model whose embedding has a padding_idx makes of batches in which that token occurs."""
    table = model.get_input_embeddings()
    table = table.modules_to_save.default if hasattr(table, "modules_to_save") else table
    row = table.padding_idx
    assert any(row in s["input_ids"] for step in batches["train"] for batch in step for s in batch)
    check, _ = check_values(model, batches["check"])
    curve, after = train(model, batches["train"], learning_rate)
    curve["final"][name]["row"] = after[name][row].tolist()
    return {"row": row, "check": check, "curve": curve}


def padded_goldens(folder, batches):
    pad = PADDED[folder.name]
    golden = padded_curve(load(folder, pad_token_id=pad), batches, 4e-3, "model.embed_tokens.weight")
    (folder / "golden_padded.json").write_text(compact({"pad_token_id": pad, **golden}))
    if folder.name in PADDED_SAVED:
        pad = PADDED_SAVED[folder.name]
        adapted = peft.PeftModel.from_pretrained(load(folder, pad_token_id=pad), folder / "adapter_saved", is_trainable=True).eval()
        golden = padded_curve(adapted, batches, 1e-2, "base_model.model.model.embed_tokens.weight")
        (folder / "golden_saved_padded.json").write_text(compact({"pad_token_id": pad, **golden}))


def weighted_goldens(folder, batches, name, weight):
    check, _ = check_values(load(folder), batches["check"], weight)
    curve, _ = train(load(folder), batches["train"], learning_rate=4e-3, weight=weight)
    (folder / f"golden_{name}.json").write_text(compact({"check": check, "full": curve}))


def balance_goldens(folder, batches):
    switches = {"output_router_logits": True, "router_aux_loss_coef": BALANCED[folder.name]}
    model = load(folder, **switches)
    check, _ = check_values(model, batches["check"])
    check["aux_loss"] = model.last_aux_loss.item()
    # The library's own way, of a single sequence with labels, gives the same sum.
    ids = torch.tensor([batches["check"][0]["input_ids"]])
    whole, logits = model(input_ids=ids, labels=ids), []
    plain, _ = sum_of_losses(model, [{"input_ids": ids[0].tolist(), "labels": ids[0].tolist()}], router_logits=logits)
    expected = plain / (ids.shape[1] - 1) + model.router_aux_loss_coef * load_balancing_loss(model, logits)
    torch.testing.assert_close(whole.loss, expected)
    curve, _ = train(load(folder, **switches), batches["train"], learning_rate=4e-3)
    (folder / "golden_balance.json").write_text(compact({"router_aux_loss_coef": BALANCED[folder.name], "check": check, "curve": curve}))


def routes_goldens(folder, batches):
    model, routes = load(folder), []
    for step in batches["train"][:6]:
        for batch in step:
            ids = batch[0]["input_ids"][:1 + len(routes) % 4]
            with torch.no_grad():
                layers = model(input_ids=torch.tensor([ids]), output_router_logits=True).router_logits
            chosen = [logits.topk(model.config.num_experts_per_tok, dim=-1).indices for logits in layers]
            routes.append({"input_ids": ids, "reached": [layer.unique().tolist() for layer in chosen]})
    (folder / "golden_routes.json").write_text("[\n" + ",\n".join(json.dumps(one) for one in routes) + "\n]\n")


def make_goldens(folder, batches, seed):
    name = folder.name
    check, grads = check_values(load(folder), batches["check"])
    curve, after = train(load(folder), batches["train"], learning_rate=4e-3)
    golden = {"check": check, "full": curve, "greedy": greedy(load(folder), 12)}
    write_adapter(folder, folder / "adapter", seed, rslora=False)
    golden["lora"], adapter = lora_goldens(folder, folder / "adapter", batches)
    if name == "llama2":
        write_adapter(folder, folder / "adapter_rslora", seed, rslora=True)
        golden["rslora"], _ = lora_goldens(folder, folder / "adapter_rslora", batches)
    if name in EXPERTS:
        experts_goldens(folder, batches, seed)
    if name in SAVED:
        saved_goldens(folder, batches, seed)
    if name in DFT:
        weighted_goldens(folder, batches, "dft", probability)
    if name in EAFT:
        weighted_goldens(folder, batches, "eaft", top_entropy)
    if name in BALANCED:
        balance_goldens(folder, batches)
    if name in FP8:
        save_file(dequantised_fp8(folder), folder / "golden_dequantised.safetensors")
    if name in ROUTED:
        routes_goldens(folder, batches)
    if name in PADDED:
        padded_goldens(folder, batches)
    if name in FULL_DETAIL:
        save_file(grads, folder / "golden_grads.safetensors")
        save_file(after, folder / "golden_full.safetensors")
        save_file(adapter, folder / "golden_lora.safetensors")
    (folder / "golden.json").write_text(compact(golden))
    print(f"{name:14} loss {check['loss']:.4f} grad {check['grad_norm']:.3f}  full {curve['loss'][0]:.3f} -> "
          f"{curve['loss'][-1]:.3f}  lora {golden['lora']['curve']['loss'][0]:.3f} -> "
          f"{golden['lora']['curve']['loss'][-1]:.3f}  margin {golden['greedy']['margin']:.3f}")


def write_shared(out, batches):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "batches.json").write_text(
        '{"check": ' + json.dumps(batches["check"]) + ',\n"train": [\n'
        + ",\n".join(json.dumps(step) for step in batches["train"]) + "]}\n")
    (out / "rope.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in rope_goldens()) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="names of models, with commas between them: their folders alone")
    parser.add_argument("--padded", action="store_true", help="the files of PADDED alone, beside folders that are there")
    arguments = parser.parse_args()
    out, specs, only = arguments.out, model_specs(), [name for name in arguments.only.split(",") if name]
    if unknown := [name for name in only if name not in specs]:
        parser.error(f"expected names of {', '.join(specs)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    batches = make_batches()
    if arguments.padded:
        for name in PADDED:
            padded_goldens(out / name, batches)
        return
    if not only:
        write_shared(out, batches)
    for place, (name, spec) in enumerate(specs.items()):
        if only and name not in only:
            continue
        shutil.rmtree(out / name, ignore_errors=True)
        write_model(out / name, spec, seed_of(name, place))
        make_goldens(out / name, batches, seed_of(name, place))


if __name__ == "__main__":
    main()
