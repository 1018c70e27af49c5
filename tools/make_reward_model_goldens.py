#!/usr/bin/env python3
"""Writes tests/golden/rewards/models.json and model_qwen3/: what TRL's GRPO trainer makes of completions by reward models.

    pip install -r bench/peers/requirements.txt && tools/make_reward_model_goldens.py

The other model is tests/golden/preference_training/reward_model, which must be there. models.json holds `lines`, completions of texts
and of messages, and for each model the reward of each line.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from make_preference_training_goldens import MODEL, TOKENIZER, randomise_norms
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForSequenceClassification
from trl import GRPOConfig, GRPOTrainer

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "golden"
LLAMA = GOLDENS / "preference_training" / "reward_model"
QWEN3 = GOLDENS / "rewards" / "model_qwen3"

TEXTS = [("What is the capital of France?", " Paris."), ("What is the capital of France?", ""), ("", "Hello"), ("Hello", " <pad><pad>"),
         ("<s>Hello", " there<|im_end|>"), ("A fox is ", "é, 答, or \U0001f98a."), ("Write ", "words " * 12)]


def message(role, content):
    return {"role": role, "content": content}


CHATS = [([message("user", "Who are you?")], "A model."), ([message("user", "Who are you?")], ""),
         ([message("system", "Be brief."), message("user", "Hello"), message("assistant", "Yes?"), message("user", "Go on.")], "No.\n"),
         ([message("user", "<pad>")], "<pad>")]


def write_qwen3():
    torch.manual_seed(23)
    model = Qwen3ForSequenceClassification(Qwen3Config(**MODEL, head_dim=8, num_labels=1))
    randomise_norms(model, torch.Generator().manual_seed(23))
    shutil.rmtree(QWEN3, ignore_errors=True)
    model.save_pretrained(QWEN3)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, QWEN3 / file)


def rewards_of(trainer, lines):
    prompts, completions = [line["prompt"] for line in lines], [line["completion"] for line in lines]
    inputs = [{"prompt": prompt} for prompt in prompts]
    return trainer._calculate_rewards(inputs, prompts, completions, [[1]] * len(lines)).T.tolist()


def main():
    torch.set_num_threads(1)
    write_qwen3()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(TOKENIZER))
    models = [AutoModelForSequenceClassification.from_pretrained(str(folder), num_labels=1, dtype=torch.float32) for folder in (LLAMA, QWEN3)]
    with tempfile.TemporaryDirectory() as scratch:
        args = GRPOConfig(output_dir=scratch, use_cpu=True, bf16=False, report_to="none", per_device_train_batch_size=2, num_generations=2)
        trainer = GRPOTrainer(model=str(GOLDENS / "preference_training" / "model"), reward_funcs=models, args=args, processing_class=tokenizer,
                              train_dataset=Dataset.from_list([{"prompt": "a"}] * 4))
        texts = [{"prompt": prompt, "completion": completion} for prompt, completion in TEXTS]
        chats = [{"prompt": prompt, "completion": [message("assistant", completion)]} for prompt, completion in CHATS]
        parts = [rewards_of(trainer, lines) for lines in (texts, chats)]
    rewards = {folder.name: [float(f"{x:.7g}") for part in parts for x in part[i]] for i, folder in enumerate((LLAMA, QWEN3))}
    text = json.dumps({"lines": texts + chats, "rewards": rewards}, indent=1, ensure_ascii=False)
    (GOLDENS / "rewards" / "models.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
