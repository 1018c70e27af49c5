#!/usr/bin/env python3
"""Adds process reward models to tests/golden/preference_training: what TRL's PRMTrainer makes of a tiny model in five steps.

    pip install -r bench/peers/requirements.txt 'trl==1.13.0'      # the last that has it; transformers 5.23, peft 0.21, torch 2.15
    python tools/make_step_goldens.py tests/golden/preference_training

As tools/make_preference_training_goldens.py, whose folders it adds to, but for one micro-batch a step: over several,
transformers adds up the means of the micro-batches, where Spillway takes their mean.

    step_model/       a Hugging Face folder with a head `score` of two labels, and its bias
    adapter_steps/    a fresh PEFT folder beside a `score` that is trained in full
    steps.jsonl       rows in TRL's columns: prompt, completions, labels
    cases/process_*   as those of the other objectives
"""

import argparse
import json
import math
import shutil
import tempfile
from pathlib import Path

import make_preference_training_goldens as preferences
import peft
import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from transformers import LlamaConfig, PreTrainedTokenizerFast
from trl.experimental.prm import PRMConfig, PRMTrainer

STEPS, ROWS, MAX_LENGTH = preferences.STEPS, 3, 48
SEPARATOR = "\n"


def make_rows():
    solutions = [
        ("What is 2 + 3 * 4?", [(" 3 * 4 is 12.", True), (" So it is 20.", False)]),
        ("Spell Paris", [(" P-a-r", True), (" then i-s", True), (" so Paris", True)]),
        ("Who are you?", [(" An assistant.", True)]),
        ("Compare 4 and 5", [(" 4 < 5", True), (" so 4 is larger", False), (" which is fine, with the quick brown fox", False), (" 5", True)]),
        ("The sky is", [(" green", False), (" no, blue", True)]), ("2 + 3 =", [(" 5", True)]), ("How many?", [(" 7", False), ("", False)]),
        ("List three colours", [(" red", True), (" green", True), (" a stone", False)]), ("Why?", [(" Because", True)]),
        ("Close the door", [(" Done, with a quick look over it", True), (" and open", False)]), ("Hello", [(" Hello there", True), (" What", False)]),
        ("Name a fruit", [(" A stone", False)])]
    return [{"prompt": prompt, "completions": [text for text, _ in steps], "labels": [label for _, label in steps]} for prompt, steps in solutions]


def load_model(out):
    return transformers.AutoModelForTokenClassification.from_pretrained(out / "step_model", dtype=torch.float32, attn_implementation="eager")


def write_model(out):
    torch.manual_seed(3)
    model = transformers.LlamaForTokenClassification(LlamaConfig(**preferences.MODEL, num_labels=2))
    model.model.load_state_dict(preferences.load_model(out).model.state_dict())
    with torch.no_grad():
        model.score.bias.copy_(torch.tensor([0.3, -0.2]))
    preferences.save_model(model, out / "step_model")


def lora():
    return peft.LoraConfig(**preferences.LORA, task_type="TOKEN_CLS", modules_to_save=["score"])


def write_adapter(out):
    torch.manual_seed(5)
    adapted = peft.get_peft_model(load_model(out), lora())
    adapted.save_pretrained(out / "adapter_steps")
    (out / "adapter_steps" / "README.md").unlink(missing_ok=True)
    path = out / "adapter_steps" / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = None
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def make_trainer(out, job, tokenizer, rows, log, scratch):
    config = PRMConfig(
        output_dir=scratch, max_steps=STEPS, per_device_train_batch_size=ROWS, learning_rate=preferences.LEARNING_RATES[job], lr_scheduler_type="constant",
        optim="adamw_torch", adam_epsilon=1e-8, weight_decay=0.0, max_grad_norm=1.0, max_length=MAX_LENGTH, step_separator=SEPARATOR,
        train_sampling_strategy="sequential", logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, bf16=False,
        gradient_checkpointing=False)
    extra = {"peft_config": lora()} if job == "lora" else {}
    trainer = PRMTrainer(model=load_model(out), args=config, processing_class=tokenizer, train_dataset=Dataset.from_list(rows), callbacks=[log], **extra)
    if job == "lora":
        loaded = peft.set_peft_model_state_dict(trainer.model, peft.load_peft_weights(str(out / "adapter_steps"), device="cpu"))
        assert not loaded.unexpected_keys, loaded.unexpected_keys
    return trainer


def write_config(folder, job):
    keys = {"base_model": "../../step_model", "process_reward_model": True, "max_length": MAX_LENGTH, "shuffle_merged_datasets": False, "curriculum_sampling": True}
    if job == "lora":
        keys |= {"adapter": "lora", "lora_r": preferences.LORA["r"], "lora_alpha": preferences.LORA["lora_alpha"], "lora_dropout": 0.0,
                 "lora_target_linear": True, "lora_modules_to_save": ["score"], "lora_model_dir": "../../adapter_steps"}
    keys |= {"micro_batch_size": ROWS, "gradient_accumulation_steps": 1, "max_steps": STEPS, "learning_rate": preferences.LEARNING_RATES[job],
             "lr_scheduler": "constant", "optimizer": "adamw_torch", "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": False,
             "logging_steps": 1, "save_strategy": "no", "output_dir": "out"}
    lines = [f"{key}: {value if isinstance(value, str) and value != 'no' else json.dumps(value)}" for key, value in keys.items()]
    lines += ["datasets:", "  - path: ../../steps.jsonl", "    ds_type: json", "    type: stepwise_supervised", f"    step_separator: {json.dumps(SEPARATOR)}"]
    (folder / "config.yml").write_text("\n".join(lines) + "\n")


def write_case(out, job, tokenizer, rows):
    folder = out / "cases" / f"process_{job}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = preferences.Log()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = make_trainer(out, job, tokenizer, rows, log, scratch)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    assert len(log.steps) == STEPS and all(math.isfinite(v) for step in log.steps for v in step.values())
    steps = ",\n".join(json.dumps(step) for step in log.steps)
    (folder / "expected.json").write_text(f'{{"steps": [\n{steps}\n]}}\n')
    save_file(preferences.trained_tensors(trainer, job), folder / "final.safetensors")
    write_config(folder, job)
    return log.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(preferences.TOKENIZER))
    write_model(out)
    write_adapter(out)
    rows = make_rows()
    preferences.write_lines(out / "steps.jsonl", rows)
    for job in ("full", "lora"):
        steps = write_case(out, job, tokenizer, rows)
        print(f"process_{job}", " ".join(f"{step['loss']:.5f}" for step in steps), flush=True)


if __name__ == "__main__":
    main()
