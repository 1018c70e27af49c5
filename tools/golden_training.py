"""Computes losses, gradients, training and greedy generation of a model by transformers and torch."""

import importlib
import json
import math

import torch
import transformers

from golden_batches import STEPS
from golden_model_specs import VOCAB

WARMUP = 3
# The model types of files that stack the experts' projections.
STACKED = {"gpt_oss", "mistral4", "gemma4_text", "granitemoe", "granitemoehybrid", "qwen3_5_moe_text"}
# The names of an expert's three projections in files, and the module that has the experts, where not as in Qwen.
EXPERT_NAMES = {kind: ("block_sparse_moe", "w1", "w3", "w2") for kind in ("mixtral", "minimax_m2")}
EXPERT_NAMES["lfm2_moe"] = ("feed_forward", "w1", "w3", "w2")


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
        if ".lora_" in name or name.endswith(("gate_up_proj_bias", "down_proj_bias")):
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
