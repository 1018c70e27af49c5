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
import importlib
import json
import math
import shutil
import tempfile
import zlib
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from golden_model_specs import SMALL, VOCAB, model_specs

STEPS = 20
WARMUP = 3
NUMBERED = 12  # the first models, whose seed is their place
FULL_DETAIL = {"llama2", "llama32", "qwen3"}
DFT = {"llama2", "gemma2"}
EAFT = {"gemma2"}
BALANCED = {"qwen3_moe": 0.5, "mixtral": 0.5, "minimax_m2": 0.5}
# A token that occurs often in the batches, and the last row of the table; see `padded_goldens`.
PADDED = {"llama2": 71, "llama32": 71, "gemma": 71, "qwen3": -1}
PADDED_SAVED = {"llama2": 71}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT = ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
# Everything else: PEFT's "all-linear", which means the experts and routers of these mixtures, but not of Qwen2's.
LORA_TARGETS = {"llama32": ["q_proj", "v_proj", "down_proj"], "qwen3_moe": ATTENTION, "mixtral": ATTENTION, "olmoe": ATTENTION, "glm4_moe": ATTENTION, "minimax_m2": ATTENTION, "afmoe": ATTENTION,
                "deepseek_v2": ["q_proj", *LATENT], "deepseek_v3": ["q_a_proj", "q_b_proj", *LATENT],
                "glm4_moe_lite": ["q_a_proj", "q_b_proj", *LATENT], "mistral4": ["q_a_proj", "q_b_proj", *LATENT],
                # PEFT's all-linear but for out_proj, which it refuses beside these state spaces.
                "nemotron_h": ["in_proj", *ATTENTION, "up_proj", "down_proj"],
                **dict.fromkeys(("falcon_h1", "falcon_h1_tied"), ["in_proj", *ATTENTION, "gate_proj", "up_proj", "down_proj"]),
                "nemotron_h_moe": ["in_proj", *ATTENTION, "up_proj", "down_proj", "fc1_latent_proj", "fc2_latent_proj"]}
# Mixtures with adapters on experts and routers.
EXPERTS = {"qwen3_moe": {}, "mixtral": {}, "olmoe": {}, "deepseek_v3": {}, "afmoe": {}, "gpt_oss_mxfp4": {
    "targets": ["q_proj", "v_proj"], "parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.router.weight"]},
           "gemma4_moe": {"targets": ["q_proj", "proj"], "parameters": ["experts.gate_up_proj", "experts.down_proj"]},
           "granitemoe": {"targets": ["v_proj"], "parameters": ["experts.gate_up_proj", "experts.down_proj", "router.weight"]},
           "lfm2_moe": {"targets": ["q_proj", "in_proj", "out_proj"],
                        "parameters": ["feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj", "feed_forward.gate.weight"]},
           "nemotron_h_moe": {"targets": ["q_proj", "in_proj"], "parameters": ["experts.up_proj", "experts.down_proj", "gate.weight"]}}
# The model types of files that stack the experts' projections; the folders for which transformers writes them one by
# one, though those of the hub stack them.
STACKED = {"gpt_oss", "mistral4", "gemma4_text", "granitemoe", "granitemoehybrid", "qwen3_5_moe_text"}
STACKED_HERE = {"qwen3_5_moe"}
# Models whose experts are mxfp4 in files; the values of its codes.
MXFP4 = {"gpt_oss_mxfp4"}
FP4_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
# The names of an expert's three projections in files, and the module that has the experts, where not as in Qwen.
EXPERT_NAMES = {kind: ("block_sparse_moe", "w1", "w3", "w2") for kind in ("mixtral", "minimax_m2")}
EXPERT_NAMES["lfm2_moe"] = ("feed_forward", "w1", "w3", "w2")
# modules_to_save, and rows of the embedding.
SAVED = {"llama2": (["embed_tokens", "norm"], VOCAB), "qwen2_tied": (["embed_tokens", "lm_head"], VOCAB + 4)}


def seed_of(name, place):
    """So that a model beside others changes none of them."""
    return place if place < NUMBERED else zlib.crc32(name.encode())


def make_sequence(generator, length, ignored_prefix):
    """Tokens that follow x -> a x + c for one of a few (a, c), so that there is something to learn."""
    a, c = [(1, 1), (1, 3), (5, 2)][int(torch.randint(3, (1,), generator=generator))]
    ids = [int(torch.randint(3, VOCAB, (1,), generator=generator))]
    while len(ids) < length:
        ids.append(3 + (a * ids[-1] + c) % (VOCAB - 3))
    labels = [-100] * ignored_prefix + ids[ignored_prefix:]
    return {"input_ids": ids, "labels": labels}


def make_batches():
    generator = torch.Generator().manual_seed(1)
    # Lengths 14, 1, 9, 5: longer than every window, a sequence without a target, a hole in the labels.
    check = [make_sequence(generator, n, p) for n, p in [(14, 4), (1, 0), (9, 0), (5, 2)]]
    check[2]["labels"][4] = -100
    train = []
    for step in range(STEPS):
        micro_steps = 2 if step % 2 else 1
        train.append([[make_sequence(generator, int(torch.randint(4, 15, (1,), generator=generator)), p)
                       for p in (0, 2, 1)] for _ in range(micro_steps)])
    return {"check": check, "train": train}


def randomise(model, seed):
    """Makes what the initialisation leaves at 0 or 1 (norms, biases) matter. Gemma's norms add their 1 themselves."""
    generator = torch.Generator().manual_seed(seed)
    kind = model.config.model_type
    around_zero = (kind.startswith(("gemma", "qwen3_next", "qwen3_5")) and not kind.startswith("gemma4")) or kind == "nemotron"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 or name.endswith("_proj_bias"):
                noise = torch.randn(parameter.shape, generator=generator) * 0.2
                is_own_scale = name.endswith(("linear_attn.norm.weight", "A_log"))
                parameter.copy_(noise if (around_zero and not is_own_scale) or name.endswith("bias") else 1 + noise)
            if kind.startswith("gemma4") and name.endswith("q_norm.weight"):
                parameter.mul_(0.25)  # nothing else keeps scores small, and so softmaxes from being a choice of one token
            if name.endswith("router.gate.weight"):  # AFMoE's start as zeros
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith(("e_score_correction_bias", "expert_bias")):
                buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.2)
            if name.endswith(("act_fn.beta", "act_fn.eps")):
                buffer.fill_(0.375 if name.endswith("beta") else -0.125)
            if name.endswith("layer_scalar"):
                buffer.copy_(1 + torch.randn(buffer.shape, generator=generator) * 0.2)


def write_config_in_style_of_4(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    part = rope.pop("partial_rotary_factor", 1.0)
    if part != 1.0:
        config["partial_rotary_factor"] = part
    if "original_max_position_embeddings" in config:  # Phi-3's files have it there alone
        rope.pop("original_max_position_embeddings", None)
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    if config["model_type"] == "qwen2_moe" and "num_local_experts" in config:
        config["num_experts"] = config.pop("num_local_experts")
    config["transformers_version"] = "4.46.0"
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_config_with_global_heads(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    (own,) = {json.dumps(layer) for layer in config.pop("per_layer_config").values()}
    own = json.loads(own)
    config["global_head_dim"] = own["head_dim"]
    config["num_global_key_value_heads"] = own.get("num_key_value_heads")
    del config["rope_parameters"]
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_config_with_pattern(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    types = config.pop("layers_block_type")
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
    config |= {"hybrid_override_pattern": "".join(letters[kind] for kind in types), "num_hidden_layers": len(types)}
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_model(folder, spec, seed):
    config, dtype, shard_size, style = spec
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, seed)
    model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard_size} if shard_size else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if style == 4:
        write_config_in_style_of_4(folder)
    if style == "global":
        write_config_with_global_heads(folder)
    if style == "pattern":
        write_config_with_pattern(folder)
    if folder.name in MXFP4:
        quantise_experts(folder)
    if folder.name in STACKED_HERE:
        stack_experts(folder)


def to_mxfp4(weight):
    """Blocks and scales of [experts, in, out] as gpt-oss's files have them: of the transposes, 32 of a row together."""
    rows = weight.float().transpose(1, 2)
    groups = rows.reshape(*rows.shape[:2], -1, 32)
    exponents = torch.floor(torch.log2(groups.abs().amax(-1, keepdim=True))) - 2  # 6 is the largest value
    distances = (groups.unsqueeze(-1) / torch.exp2(exponents).unsqueeze(-1) - torch.tensor(FP4_VALUES)).abs()
    codes = distances.argmin(-1).to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, (exponents.squeeze(-1) + 127).to(torch.uint8)


def quantise_experts(folder):
    tensors = load_file(folder / "model.safetensors")
    for name in [n for n in tensors if n.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = to_mxfp4(tensors.pop(name))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] = {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def stack_experts(folder):
    tensors, stacks = load_file(folder / "model.safetensors"), {}
    for name in [n for n in tensors if ".mlp.experts." in n]:
        stem, expert, kind, _ = name.rsplit(".", 3)
        stacks.setdefault(stem, {}).setdefault(kind, {})[int(expert)] = tensors.pop(name)
    for stem, kinds in stacks.items():
        gate, up, down = (torch.stack([kinds[kind][e] for e in sorted(kinds[kind])]) for kind in ("gate_proj", "up_proj", "down_proj"))
        tensors |= {f"{stem}.gate_up_proj": torch.cat([gate, up], 1).contiguous(), f"{stem}.down_proj": down}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def dequantised(folder, to):
    """Writes to `to` the model whose experts are what transformers makes of blocks and scales."""
    to.mkdir()
    tensors = load_file(folder / "model.safetensors")
    for name in [n.removesuffix("_blocks") for n in tensors if n.endswith("_blocks")]:
        tensors[name] = convert_moe_packed_tensors(tensors.pop(f"{name}_blocks"), tensors.pop(f"{name}_scales")).contiguous()
    save_file(tensors, to / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (to / "config.json").write_text(json.dumps(config))
    return to


def load(folder, **overrides):
    """`overrides` replace keys of config.json before the model is made."""
    if folder.name in MXFP4:
        with tempfile.TemporaryDirectory() as other:
            return load(dequantised(folder, Path(other) / "dense"), **overrides)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **overrides)
    for name, parameter in model.named_parameters():
        if name.endswith(".expert_bias"):  # AFMoE's, which its class makes untrained and loading trained, without a gradient
            parameter.requires_grad_(False)
    return model.eval()


def load_balancing_loss(model, router_logits):
    """transformers' loss of a micro-batch whose sequences have these logits: a tuple of layers each."""
    function = importlib.import_module(type(model).__module__).load_balancing_loss_func
    return function(tuple(torch.cat(layer) for layer in zip(*router_logits)), model.num_experts, model.num_experts_per_tok)


def probability(logits, losses):
    """DFT's weights of tokens: the probability that a loss stands for."""
    return torch.exp(-losses)


def top_entropy(logits, losses, k=7, alpha=1.5):
    """EAFT's weights of tokens, as axolotl's monkeypatch/loss/eaft.py has them."""
    p = torch.topk(logits.float(), k=k, dim=-1)[0].softmax(dim=-1)
    return torch.pow(-(p * torch.log(p + 1e-10)).sum(dim=-1), alpha)


def sum_of_losses(model, batch, weight=None, router_logits=None):
    """Sum of the negative log-likelihoods of a batch's targets, and how many there are. labels[0] is never a target.
    Each counts by its `weight`, a constant to gradients. Appends to `router_logits`."""
    total, targets = torch.zeros(()), 0
    for sequence in batch:
        output = model(input_ids=torch.tensor([sequence["input_ids"]]))
        logits = output.logits[0]
        if router_logits is not None:
            router_logits.append(output.router_logits)
        labels = torch.tensor(sequence["labels"])[1:]
        if (labels != -100).any():
            losses = torch.nn.functional.cross_entropy(logits[:-1], labels, ignore_index=-100, reduction="none")
            if weight:
                losses = losses * weight(logits[:-1].detach(), losses.detach()) * (labels != -100)
            total = total + losses.sum()
            targets += int((labels != -100).sum())
    return total, targets


def backward(model, micro_batches, weight=None):
    """Accumulates the gradient of the mean over all targets of the step; returns that mean. Beside it, the gradient of
    the mean over the micro-batches of the load-balancing loss, where the model has it."""
    targets = sum(label != -100 for batch in micro_batches for s in batch for label in s["labels"][1:])
    loss = 0.0
    for batch in micro_batches:
        router_logits = [] if getattr(model.config, "output_router_logits", False) else None
        total, _ = sum_of_losses(model, batch, weight, router_logits)
        share = total / targets
        if router_logits is not None:
            model.last_aux_loss = load_balancing_loss(model, router_logits)
            share = share + model.router_aux_loss_coef * model.last_aux_loss / len(micro_batches)
        share.backward()
        loss += total.item()
    return loss / targets


def plain_name(name):
    """A PEFT parameter under the name that its file uses."""
    return name.replace(".modules_to_save.default.", ".").replace(".default.", ".")


def as_in_files(model, tensors):
    """Tensors by names as files have them: transformers holds the projections of all experts of a layer in two. Those of
    STACKED are so in files, too, and get names of one expert each."""
    model_type = model.config.get_text_config().model_type
    mlp, gate, up, down = EXPERT_NAMES.get(model_type, ("mlp", "gate_proj", "up_proj", "down_proj"))
    result = {}
    for name, tensor in tensors.items():
        if ".lora_" in name:
            result[name] = tensor
        elif model_type in STACKED and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            stem, kind = name.rsplit(".", 1)
            result |= {f"{stem}.{e}.{kind}.weight": own for e, own in enumerate(tensor)}
        elif ".mlp.experts." in name or ".feed_forward.experts." in name or ".mixer.experts." in name:
            stem, kind = name.replace(".mlp.", f".{mlp}.").rsplit(".", 1)
            for e, own in enumerate(tensor):
                parts = dict(zip((gate, up), own.chunk(2))) if kind == "gate_up_proj" else {{"up_proj": up, "down_proj": down}[kind]: own}
                result |= {f"{stem}.{e}.{part}.weight": values for part, values in parts.items()}
        else:
            result[name.replace(".mlp.gate.", f".{mlp}.gate.").replace("moe.router.weight", "moe.router.layer.weight")] = tensor
    return result


def trainable(model):
    return {plain_name(n): p for n, p in model.named_parameters() if p.requires_grad}


def check_values(model, batch, weight=None):
    model.zero_grad()
    loss = backward(model, [batch], weight)
    grads = {n: (torch.zeros_like(p) if p.grad is None else p.grad.clone()) for n, p in trainable(model).items()}
    grads = as_in_files(model, grads)
    norms = {n: g.norm().item() for n, g in grads.items()}
    return {"loss": loss, "grad_norm": math.sqrt(sum(n * n for n in norms.values())), "grad_norms": norms}, grads


def digest(before, after):
    """Returns what is kept of a tensor: the norm, the norm of its change, and 8 elements spread over it."""
    flat = after.flatten()
    return {"norm": after.norm().item(), "change": (after - before).norm().item(),
            "samples": [flat[i * (flat.numel() - 1) // 7].item() for i in range(8)]}


def train(model, steps, learning_rate, weight=None):
    """torch's AdamW as transformers' Trainer sets it up: no decay on norms and biases, linear schedule with warmup."""
    parameters = trainable(model)
    before = {n: p.detach().clone() for n, p in parameters.items()}
    decayed = {plain_name(n) for n in transformers.Trainer.get_decay_parameter_names(None, model)}
    groups = [{"params": [p for n, p in parameters.items() if n in decayed], "weight_decay": 0.01},
              {"params": [p for n, p in parameters.items() if n not in decayed], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, WARMUP, STEPS)
    curve = {"loss": [], "grad_norm": [], "learning_rate": []}
    for micro_batches in steps:
        optimizer.zero_grad()
        curve["loss"].append(backward(model, micro_batches, weight))
        curve["grad_norm"].append(torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0).item())
        curve["learning_rate"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    after = {n: p.detach().clone() for n, p in parameters.items()}
    curve["peak_learning_rate"] = learning_rate
    before, after = as_in_files(model, before), as_in_files(model, after)
    curve["final"] = {n: digest(before[n], after[n]) for n in after}
    return curve, after


def greedy(model, tokens):
    """Greedy continuation of the first prompt whose every choice is clear (margin of the best logit > 0.05)."""
    for factor, start in [(factor, start) for factor in (7, 11, 13) for start in range(3, VOCAB)]:
        ids = [start, (factor * start) % VOCAB, 5]
        margin, first = math.inf, None
        with torch.no_grad():
            for _ in range(tokens):
                logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
                first = logits if first is None else first
                best = logits.topk(2)
                margin = min(margin, (best.values[0] - best.values[1]).item())
                ids.append(int(best.indices[0]))
        if margin > 0.05 and len(set(ids[3:])) > 3 and 2 not in ids[3:]:
            generated = model.generate(torch.tensor([ids[:3]]), max_new_tokens=tokens, do_sample=False)
            assert generated[0].tolist() == ids
            return {"prompt": ids[:3], "ids": ids[3:], "margin": margin, "first_logits": first.tolist()}
    raise RuntimeError("no prompt with clear choices")


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


def compact(value):
    """One line a leaf list or tensor; nine digits give a float32 back exactly."""
    def short(x):
        if isinstance(x, float):
            return float(f"{x:.9g}")
        if isinstance(x, dict):
            return {k: short(v) for k, v in x.items()}
        return [short(v) for v in x] if isinstance(x, list) else x

    def lines(x, depth):
        if depth and isinstance(x, dict):
            inner = ",\n".join(f"{json.dumps(k)}: {lines(v, depth - 1)}" for k, v in x.items())
            return "{\n" + inner + "\n}"
        return json.dumps(x)
    return lines(short(value), 4) + "\n"


def rope_goldens():
    """Inverse frequencies of models people use, and of odd corners."""
    llama3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}
    yarn = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}
    ministral3 = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
                  "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0}
    longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 4096,
                "short_factor": [1 + i / 64 for i in range(48)], "long_factor": [1.5 + i for i in range(48)]}
    cases = {
        "llama2 7b": (128, {"rope_type": "default", "rope_theta": 10000.0}),
        "llama 3.1 8b": (128, {**llama3, "rope_theta": 500000.0, "factor": 8.0}),
        "llama 3.2 1b": (64, {**llama3, "rope_theta": 500000.0, "factor": 32.0}),
        "smollm2 135m": (64, {"rope_type": "default", "rope_theta": 100000.0}),
        "qwen3 8b": (128, {"rope_type": "default", "rope_theta": 1000000.0}),
        "linear by 4": (96, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
        "qwen3 stretched by 4": (128, yarn),
        "yarn of all options": (64, {**yarn, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False,
                                     "attention_factor": 1.25}),
        "yarn with two scales": (64, {**yarn, "mscale": 0.7, "mscale_all_dim": 1.4}),
        "yarn by the lengths": (64, {**yarn, "factor": None}),
        "ministral 3": (128, ministral3),
        "longrope": (96, longrope),
        "longrope with a factor": (96, {**longrope, "attention_factor": 1.5}),
        "gemma 4": (512, {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}),
        "proportional by 4": (24, {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.3, "factor": 4.0}),
    }
    result = []
    for name, (head_dim, rope) in cases.items():
        config = LlamaConfig(head_dim=head_dim, max_position_embeddings=131072, rope_parameters=dict(rope))
        compute = ROPE_INIT_FUNCTIONS.get(rope["rope_type"], LlamaRotaryEmbedding.compute_default_rope_parameters)
        inv_freq, scale = compute(config)
        case = {"name": name, "config": {"head_dim": head_dim, "rope_parameters": rope}, "inv_freq": inv_freq.tolist(),
                "attention_factor": scale}
        if rope["rope_type"] == "longrope":
            case["long_inv_freq"] = compute(config, seq_len=4097)[0].tolist()
        result.append(case)
    return result


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
