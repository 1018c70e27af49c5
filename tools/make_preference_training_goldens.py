#!/usr/bin/env python3
"""Writes tests/golden/preference_training: what TRL's preference trainers make of a tiny model in five optimizer steps.

    pip install -r bench/peers/requirements.txt      # made with trl 1.16, transformers 5.23, peft 0.21, torch 2.15
    python tools/make_preference_training_goldens.py tests/golden/preference_training [--only TEXT ...]

Everything runs on the CPU in f32, with one thread. Two micro-batches make a step, rows come in file order.

    model/, reward_model/        Hugging Face folders: a model of text, and the same with a head `score`
    other_model/                 a model of other weights, depth and width: `ref_model`
    adapter_fresh/               a PEFT folder whose B is zero: the reference is the base, TRL turns the adapter off
    adapter_continued/           one whose B is not: the reference is a frozen copy of the adapter
    adapter_reward/              a fresh one beside a `score` that is trained in full
    pairs.jsonl, labelled.jsonl  rows in TRL's columns; pairs_margin.jsonl has a column `margin` more
    rows_KIND.json               the ids that TRL trained on, row by row, cut at the max_length that stands there
    cases/NAME/config.yml        the case as a config; paths are relative to the folder
    cases/NAME/expected.json     for each step what TRL logged, and "rows", the file of ids
    cases/NAME/final.safetensors the trained tensors after the last step

`logits/*` of ORPO and CPO are left out: TRL averages them over padding and prompt, too.
"""

import argparse
import json
import math
import os
import shutil
import tempfile
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TQDM_DISABLE="1")

import datasets
import peft
import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from transformers import LlamaConfig, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

TOKENIZER = Path(__file__).resolve().parent.parent / "tests" / "golden" / "rows"
STEPS, ACCUMULATION, PAIRS, LABELLED = 5, 2, 2, 4
MODEL = dict(vocab_size=420, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=96, initializer_range=0.2, bos_token_id=0, eos_token_id=4,
             pad_token_id=None, tie_word_embeddings=True, rms_norm_eps=1e-5,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
LORA = dict(r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")
LEARNING_RATES = {"full": 1e-3, "lora": 5e-3}


# Rows. Lengths differ, the longest are cut, one prompt fills the whole length, and one merges with what follows it.

def make_pairs():
    prompts = [
        "What is the capital of France?", "The sky is", "How do I boil an egg?", "Write a word.", "2 + 3 =", "Who are you?",
        "Describe the task appropriately and then complete the request, with an instruction for each step of it, please. Go on.",
        "Hello", "A fox is ", "Today I am", "Is there more?", "Say it again:", "Give me the response", "The lazy dog", "Paint it",
        "What is the system?", "Further input:", "Compare 4 and 5", "Why?", "How many?", "List three colours", "Name a fruit",
        "Spell Paris", "Close the door"]
    chosen = [
        " Paris.", " blue.", " In hot water, for seven minutes.", " Fine", " 5", " An assistant.", " Yes", " Hello there", "brown",
        " fine today, with the quick brown fox over there", " No.", " it", " Below", " sleeps, as it does today and as it will",
        " red", " The user is with the system, and that is fine.", " none", " 4 < 5", " Because", " 7", " red, green and blue",
        " An apple", " P-a-r-i-s", " Done, with a quick look over it"]
    rejected = [
        " Rome, or so they tell me.", " green", " I do not know", " There is no word that I like to write today.", " 6",
        " Who asks?", " No, nothing", " What", "over the system", " juicy", " There is always more than there was, is there?",
        " it again, it again", " I will not give it", " jumps", " Paint what? With which brush, and over which wall then?", " A thing",
        " Below is an instruction that describes it", " 5 < 4", " Because there is a why to it", " 8 or 9", " blue", " A stone",
        " Rome", " No"]
    return [{"prompt": p, "chosen": c, "rejected": r} for p, c, r in zip(prompts, chosen, rejected, strict=True)]


def make_labelled(pairs):
    """The third micro-batch has wanted completions alone, the sixth none."""
    rows = []
    for i, pair in enumerate(pairs[:22]):
        rows.append({"prompt": pair["prompt"], "completion": pair["chosen"], "label": True})
        rows.append({"prompt": pair["prompt"], "completion": pair["rejected"], "label": False})
    order = sorted(range(len(rows)), key=lambda i: (i * 17) % len(rows))
    rows = [rows[i] for i in order]
    for place, wanted in ((8, True), (20, False)):
        for i in range(place, place + LABELLED):
            rows[i]["label"] = wanted
    return rows


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# Models and adapters.

def randomise_norms(model, generator):
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.copy_(1 + 0.2 * torch.randn(parameter.shape, generator=generator))


def learn_a_little(model, tokenizer, pairs):
    """So that some tokens are likely: untrained, no token is ever the most likely one, and all losses look alike."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for _ in range(8):
        for pair in pairs:
            for side in ("chosen", "rejected"):
                ids = tokenizer(pair["prompt"] + pair[side] + tokenizer.eos_token, return_tensors="pt")["input_ids"]
                model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def write_models(out, tokenizer, pairs):
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(LlamaConfig(**MODEL))
    randomise_norms(model, generator)
    learn_a_little(model, tokenizer, pairs)
    reward = transformers.LlamaForSequenceClassification(LlamaConfig(**MODEL, num_labels=1))
    reward.model.load_state_dict(model.model.state_dict())
    for folder, one in (("model", model), ("reward_model", reward)):
        save_model(one, out / folder)


def save_model(model, folder):
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, folder / file)


def write_other_model(out, tokenizer, pairs):
    generator = torch.Generator().manual_seed(7)
    torch.manual_seed(7)
    other = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(LlamaConfig(**{**MODEL, **other}))
    randomise_norms(model, generator)
    learn_a_little(model, tokenizer, pairs[::2])
    save_model(model, out / "other_model")


def write_adapter(path, model, spread, kind="CAUSAL_LM", **extra):
    """A PEFT folder beside `model`, which it wraps; `spread` is the deviation of B, 0 for a fresh one."""
    adapted = peft.get_peft_model(model, peft.LoraConfig(**LORA, task_type=kind, **extra))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, spread) if spread else parameter.zero_()
    adapted.save_pretrained(path)
    (path / "README.md").unlink(missing_ok=True)
    config = json.loads((path / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    config["target_modules"] = sorted(config["target_modules"])
    (path / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def write_adapters(out):
    for folder, spread, kind in (("adapter_fresh", 0.0, "CAUSAL_LM"), ("adapter_continued", 0.05, "CAUSAL_LM"), ("adapter_reward", 0.0, "SEQ_CLS")):
        torch.manual_seed(5)
        model = load_model(out, kind == "SEQ_CLS")
        write_adapter(out / folder, model, spread, kind, **({"modules_to_save": ["score"]} if kind == "SEQ_CLS" else {}))


def load_model(out, is_reward=False, folder=None):
    kind = transformers.AutoModelForSequenceClassification if is_reward else transformers.AutoModelForCausalLM
    return kind.from_pretrained(out / (folder or ("reward_model" if is_reward else "model")), dtype=torch.float32, attn_implementation="eager")


# Cases: (name, kind, job, TRL's arguments, keys of the config). Jobs: full, lora (a fresh adapter), continued.

BETA = {"rl_beta": 0.2}


def case(name, kind, job, trl=None, keys=None, rows=None, other=False, max_length=None):
    trl, keys = dict(trl or {}), dict(keys or {})
    if kind != "reward":
        trl.setdefault("beta", 0.2)
        keys = {**({"orpo_alpha": 0.2} if kind == "orpo" else BETA), **keys}
    return {"name": name, "kind": kind, "job": job, "trl": trl, "keys": keys, "rows": rows, "other": other, "max_length": max_length or MAX_LENGTH[kind]}


def dpo(name, job, losses, trl=None, keys=None, **more):
    return case(f"dpo_{name}_{job}", "dpo", job, {"loss_type": losses, **(trl or {})}, {"rl": "dpo", "dpo_loss_type": losses, **(keys or {})}, **more)


def smoothed(losses, amount=0.1):
    read = {"exo_pair", "robust", "aot", "aot_unpaired"} & set(losses)
    return ({"label_smoothing": amount}, {"dpo_label_smoothing": amount}) if read else ({}, {})


def dpo_cases():
    kinds = ["sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero", "apo_down",
             "discopop", "sft", "sigmoid_norm"]
    cases = []
    for kind in kinds:
        trl, keys = smoothed([kind])
        if kind == "discopop":
            trl, keys = {"discopop_tau": 0.3}, {"discopop_tau": 0.3}
        cases.append(dpo(kind, "lora", [kind], trl, keys))
    cases.append(dpo("sigmoid", "full", ["sigmoid"]))
    ipo = dpo("ipo", "full", ["ipo"])
    del ipo["keys"]["dpo_loss_type"]
    ipo["keys"]["rl"] = "ipo"
    cases.append(ipo)
    weights = {"loss_weights": [0.8, 0.2, 0.5]}
    for job in ("lora", "full"):
        cases.append(dpo("mix", job, ["sigmoid", "bco_pair", "sft"], weights, {"dpo_loss_weights": weights["loss_weights"]}))
    for divergence in ("forward_kl", "js_divergence", "alpha_divergence"):
        keys = {"f_divergence_type": divergence, **({"f_alpha_divergence_coef": 0.4} if divergence == "alpha_divergence" else {})}
        cases.append(dpo(divergence, "lora", ["sigmoid"], keys, keys))
    cases.append(dpo("js_divergence_mix", "lora", ["ipo", "sigmoid_norm", "hinge"], {"f_divergence_type": "js_divergence"}, {"f_divergence_type": "js_divergence"}))
    cases.append(dpo("ld_alpha", "lora", ["sigmoid"], {"ld_alpha": 0.5}, {"dpo_ld_alpha": 0.5}))
    cases.append(dpo("weighting", "lora", ["sigmoid"], {"use_weighting": True}, {"dpo_use_weighting": True}))
    cases.append(dpo("weighting_mix", "lora", ["sigmoid", "apo_zero", "bco_pair"], {"use_weighting": True}, {"dpo_use_weighting": True}))
    for job in ("lora", "full"):
        keys = {"precompute_ref_log_probs": True}
        cases.append(dpo("precompute", job, ["sigmoid"], keys, keys))
    sync = {"sync_ref_model": True, "ref_model_mixup_alpha": 0.6, "ref_model_sync_steps": 2}
    cases.append(dpo("sync", "full", ["sigmoid"], sync, sync))
    cases.append(dpo("sigmoid", "continued", ["sigmoid"]))
    cases.append(dpo("precompute", "continued", ["sigmoid"], {"precompute_ref_log_probs": True}, {"precompute_ref_log_probs": True}))
    for job in ("lora", "full"):
        cases.append(dpo("other", job, ["sigmoid"], {}, {"ref_model": "../../other_model"}, other=True))
    return cases


def kto_cases():
    cases = []
    weights = ({"desirable_weight": 1.2, "undesirable_weight": 0.9}, {"kto_desirable_weight": 1.2, "kto_undesirable_weight": 0.9})
    for loss in ("kto", "apo_zero_unpaired"):
        for job in ("lora", "full"):
            cases.append(case(f"{loss if loss != 'kto' else 'kto_kto'}_{job}".replace("apo_zero", "kto_apo_zero"), "kto", job, {"loss_type": loss, **weights[0]},
                              {"rl": "kto", "remove_unused_columns": False, "dpo_loss_type": [loss], **weights[1]}))
    keys = {"precompute_ref_log_probs": True}
    cases.append(case("kto_precompute_lora", "kto", "lora", keys, {"rl": "kto", "remove_unused_columns": False, **keys}))
    cases.append(case("kto_kto_continued", "kto", "continued", {}, {"rl": "kto", "remove_unused_columns": False}))
    cases.append(case("kto_other_full", "kto", "full", {}, {"rl": "kto", "remove_unused_columns": False, "ref_model": "../../other_model"}, other=True, max_length=80))
    return cases


def cpo_cases():
    cases = [case(f"orpo_{job}", "orpo", job, {}, {"rl": "orpo"}) for job in ("lora", "full")]
    cases.append(case("cpo_sigmoid_full", "cpo", "full", {"loss_type": "sigmoid"}, {"rl": "cpo"}))
    cases.append(case("cpo_sigmoid_lora", "cpo", "lora", {"loss_type": "sigmoid", "label_smoothing": 0.1, "cpo_alpha": 0.5},
                      {"rl": "cpo", "dpo_label_smoothing": 0.1, "cpo_alpha": 0.5}))
    for loss in ("hinge", "ipo"):
        cases.append(case(f"cpo_{loss}_lora", "cpo", "lora", {"loss_type": loss}, {"rl": "cpo", "dpo_loss_type": [loss]}))
    for cpo_alpha in (0.0, 1.0):
        cases.append(case(f"simpo_alpha{cpo_alpha:.0f}_lora", "cpo", "lora", {"loss_type": "simpo", "cpo_alpha": cpo_alpha, "simpo_gamma": 0.3},
                          {"rl": "simpo", "cpo_alpha": cpo_alpha, "simpo_gamma": 0.3}))
    cases.append(case("simpo_full", "cpo", "full", {"loss_type": "simpo", "label_smoothing": 0.1}, {"rl": "simpo", "dpo_label_smoothing": 0.1}))
    cases.append(case("alphapo_lora", "cpo", "lora", {"loss_type": "alphapo", "alpha": 0.25}, {"rl": "simpo", "cpo_alpha": 0.0, "alpha": 0.25}))
    return cases


def reward_cases():
    keys = {"reward_model": True}
    centred = {"center_rewards_coefficient": 0.05}
    return [case("reward_full", "reward", "full", {}, keys), case("reward_lora", "reward", "lora", {}, keys),
            case("reward_centred_lora", "reward", "lora", centred, {**keys, **centred}),
            case("reward_margin_lora", "reward", "lora", {}, keys, rows="pairs_margin")]


TRAINERS = {"dpo": (DPOTrainer, DPOConfig), "kto": (KTOTrainer, KTOConfig), "orpo": (ORPOTrainer, ORPOConfig), "cpo": (CPOTrainer, CPOConfig),
            "reward": (RewardTrainer, RewardConfig)}
# The defaults of cases that say nothing else. Where a prompt fills the length, DPO and KTO drop the row and ORPO divides by zero; a reward model drops what is longer.
MAX_LENGTH = {"dpo": 40, "kto": 40, "orpo": 65, "cpo": 65, "reward": 60}


class Log(transformers.TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, _args, state, _control, logs=None, **__):
        if logs and "loss" in logs:
            left_out = {"epoch", "total_flos", "step_time"}
            self.steps.append({"step": state.global_step, **{k: v for k, v in logs.items() if k not in left_out and isinstance(v, (int, float))}})


def rows_name(one):
    return one["rows"] or ("labelled" if one["kind"] == "kto" else "pairs")


def make_trainer(out, one, tokenizer, rows, log, scratch):
    trainer_class, config_class = TRAINERS[one["kind"]]
    is_reward, job = one["kind"] == "reward", one["job"]
    config = config_class(
        output_dir=scratch, max_steps=STEPS, per_device_train_batch_size=LABELLED if one["kind"] == "kto" else PAIRS,
        gradient_accumulation_steps=ACCUMULATION, learning_rate=LEARNING_RATES["full" if job == "full" else "lora"], lr_scheduler_type="constant",
        optim="adamw_torch", adam_epsilon=1e-8, weight_decay=0.0, max_grad_norm=1.0, max_length=one["max_length"], train_sampling_strategy="sequential",
        logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False, **one["trl"])
    model = load_model(out, is_reward)
    adapter = {"lora": "adapter_reward" if is_reward else "adapter_fresh", "continued": "adapter_continued"}.get(job)
    extra = {}
    if job == "lora":
        extra["peft_config"] = peft.LoraConfig(**LORA, task_type="SEQ_CLS" if is_reward else "CAUSAL_LM", **({"modules_to_save": ["score"]} if is_reward else {}))
    elif job == "continued":
        model = peft.PeftModel.from_pretrained(model, out / adapter, is_trainable=True)
    if one["other"]:
        extra["ref_model"] = load_model(out, folder="other_model")
    trainer = trainer_class(model=model, args=config, processing_class=tokenizer, train_dataset=Dataset.from_list(rows), callbacks=[log], **extra)
    if job == "lora":
        start_from(trainer, out / adapter)
    return trainer


def start_from(trainer, adapter):
    """Gives a trainer's fresh adapter the factors of a folder, so that others can start alike."""
    loaded = peft.set_peft_model_state_dict(trainer.model, peft.load_peft_weights(str(adapter), device="cpu"))
    assert not loaded.unexpected_keys, loaded.unexpected_keys


def trained_tensors(trainer, job):
    if job == "full":
        return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    return {name: t.contiguous().clone() for name, t in peft.get_peft_model_state_dict(trainer.model, adapter_name="default").items()}


def trained_rows(trainer, kind, max_length):
    """The ids as they reach the model, without padding."""
    rows = []
    for row in trainer.train_dataset:
        if kind in ("orpo", "cpo"):
            made = {}
            for side in ("chosen", "rejected"):
                ids, labels = row[f"{side}_input_ids"], row[f"{side}_labels"]
                prompt = sum(1 for label in labels if label == -100)
                made |= {f"{side}_prompt_ids": ids[:prompt], f"{side}_ids": ids[prompt:]}
        elif kind == "reward":
            made = {name: row[name] for name in ("chosen_ids", "rejected_ids")}
        else:
            made = {"prompt_ids": row["prompt_ids"]}
            room = max_length - len(row["prompt_ids"])
            made |= {name: row[name][:room] for name in ("chosen_ids", "rejected_ids", "completion_ids", "KL_completion_ids") if name in row}
            made |= {"label": bool(row["label"])} if "label" in row else {}
        rows.append(made)
    return rows


def write_config(folder, one):
    kind, job = one["kind"], one["job"]
    keys = {"base_model": "../../reward_model" if kind == "reward" else "../../model", **one["keys"], "datasets": None,
            "max_length": one["max_length"], "shuffle_merged_datasets": False, "curriculum_sampling": True}
    if job != "full":
        adapter = "adapter_continued" if job == "continued" else "adapter_reward" if kind == "reward" else "adapter_fresh"
        keys |= {"adapter": "lora", "lora_r": LORA["r"], "lora_alpha": LORA["lora_alpha"], "lora_dropout": 0.0, "lora_target_linear": True,
                 **({"lora_modules_to_save": ["score"]} if kind == "reward" else {}), "lora_model_dir": f"../../{adapter}"}
    keys |= {"micro_batch_size": LABELLED if kind == "kto" else PAIRS, "gradient_accumulation_steps": ACCUMULATION, "max_steps": STEPS,
             "learning_rate": LEARNING_RATES["full" if job == "full" else "lora"], "lr_scheduler": "constant", "optimizer": "adamw_torch",
             "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": False, "logging_steps": 1, "save_strategy": "no",
             "output_dir": "out"}
    lines = []
    for key, value in keys.items():
        if key == "datasets":
            lines += ["datasets:", f"  - path: ../../{rows_name(one)}.jsonl", "    ds_type: json"]
        else:
            is_plain = isinstance(value, str) and value != "no"
            lines.append(f"{key}: {value if is_plain else json.dumps(value)}")  # JSON is YAML
    (folder / "config.yml").write_text("\n".join(lines) + "\n")


def write_case(out, one, tokenizer, rows):
    folder = out / "cases" / one["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = Log()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = make_trainer(out, one, tokenizer, rows[rows_name(one)], log, scratch)
        ids = trained_rows(trainer, one["kind"], one["max_length"])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    assert len(log.steps) == STEPS and all(math.isfinite(v) for step in log.steps for v in step.values())
    if one["kind"] in ("orpo", "cpo"):
        log.steps = [{k: v for k, v in step.items() if not k.startswith("logits/")} for step in log.steps]
    kind = {"cpo": "orpo"}.get(one["kind"], one["kind"])
    made = {"max_length": one["max_length"], "rows": ids}
    is_whole = one["max_length"] > MAX_LENGTH[one["kind"]]
    if kind == "kto" and one["trl"].get("loss_type", "kto") != "kto" or is_whole:
        kind = None  # the same rows without those of the KL, or longer
    if kind:
        lines = ",\n".join(json.dumps(row) for row in ids)
        text = f'{{"max_length": {made["max_length"]}, "rows": [\n{lines}\n]}}\n'
        path = out / f"rows_{kind}.json"
        assert not path.exists() or path.read_text() == text, f"{one['name']}: other ids than before"
        path.write_text(text)
    steps = ",\n".join(json.dumps(step) for step in log.steps)
    (folder / "expected.json").write_text(f'{{"rows": "rows_{kind or "kto"}.json", "steps": [\n{steps}\n]}}\n')
    save_file(trained_tensors(trainer, one["job"]), folder / "final.safetensors")
    write_config(folder, one)
    return log.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="only cases whose names hold one of these")
    args = parser.parse_args()
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(TOKENIZER))
    out = args.out
    out.mkdir(parents=True, exist_ok=True)
    if not args.only:
        for path in out.glob("rows_*.json"):
            path.unlink()
    pairs = make_pairs()
    if not (args.only and (out / "model").exists()):
        write_models(out, tokenizer, pairs)
        write_adapters(out)
    if not (args.only and (out / "other_model").exists()):
        write_other_model(out, tokenizer, pairs)
    rows = {"pairs": pairs, "labelled": make_labelled(pairs),
            "pairs_margin": [{**pair, "margin": (i % 5) * 0.25} for i, pair in enumerate(pairs)]}
    for name, lines in rows.items():
        write_lines(out / f"{name}.jsonl", lines)
    for one in dpo_cases() + kto_cases() + cpo_cases() + reward_cases():
        if not args.only or any(text in one["name"] for text in args.only):
            steps = write_case(out, one, tokenizer, rows)
            print(one["name"], " ".join(f"{step['loss']:.5f}" for step in steps), flush=True)


if __name__ == "__main__":
    main()
