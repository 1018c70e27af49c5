#!/usr/bin/env python3
"""Writes tests/golden/distillation: what TRL's GKD trainer makes of a tiny model and a teacher in five optimizer steps.

    pip install -r bench/peers/requirements.txt      # made with trl 1.16, transformers 5.24, peft 0.21, torch 2.15
    python tools/make_distillation_goldens.py tests/golden/distillation

Models are those of tests/golden/preference_training: `model` learns from `other_model`, which is narrower and deeper.
Everything runs on the CPU in f32, with one thread. Two micro-batches make a step, rows come in file order.

    rows.jsonl                   token ids with labels
    cases/gkd_*                  GKDTrainer with lmbda 0 and beta 0: the forward KL of the rows as they are
    cases/kd_*                   the same with axolotl's terms: kd_alpha times the divergence at kd_temperature, plus
                                 kd_ce_alpha times the cross-entropy (axolotl/integrations/kd/kernels/liger.py)
    cases/NAME/config.yml        the case as a config; paths are relative to the folder
    cases/NAME/expected.json     loss and gradient norm of each step
    cases/NAME/final.safetensors the trained tensors after the last step
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TQDM_DISABLE="1")

import peft
import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from trl.experimental.gkd import GKDConfig, GKDTrainer

GOLDENS = Path(__file__).resolve().parent.parent / "tests" / "golden"
MODELS = GOLDENS / "preference_training"
STEPS, ACCUMULATION, ROWS, VOCABULARY = 5, 2, 2, 420
LEARNING_RATES = {"full": 1e-3, "lora": 5e-3}
CASES = {"gkd_full": ("full", {}), "gkd_lora": ("lora", {}),
         "kd_full": ("full", {"kd_alpha": 0.9, "kd_ce_alpha": 0.2, "kd_temperature": 2.0})}


def make_rows():
    generator = torch.Generator().manual_seed(7)
    rows = []
    for i in range(STEPS * ACCUMULATION * ROWS):
        length = 6 + 5 * i % 23
        ids = torch.randint(5, VOCABULARY, (length,), generator=generator).tolist()
        prompt = 1 + i % 4
        rows.append({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]})
    return rows


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    padded = {"input_ids": 0, "labels": -100}
    batch = {name: torch.tensor([row[name] + [fill] * (longest - len(row[name])) for row in rows])
             for name, fill in padded.items()}
    batch["attention_mask"] = torch.tensor([[1] * len(row["input_ids"]) + [0] * (longest - len(row["input_ids"])) for row in rows])
    return batch


class WeightedTrainer(GKDTrainer):
    kd = {}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        read = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        outputs = model(**read)
        with torch.no_grad():
            teacher = self.teacher_model(**read)
        labels = inputs["labels"][:, 1:]
        logits = outputs.logits[:, :-1]
        divergence = self.generalized_jsd_loss(logits, teacher.logits[:, :-1], labels=labels, beta=0,
                                               temperature=self.kd["kd_temperature"], num_items_in_batch=num_items_in_batch)
        entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / num_items_in_batch
        loss = self.kd["kd_alpha"] * divergence + self.kd["kd_ce_alpha"] * entropy
        return (loss, outputs) if return_outputs else loss


class Log(transformers.TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, _args, state, _control, logs=None, **__):
        if logs and "loss" in logs:
            self.steps.append({"step": state.global_step, "loss": logs["loss"], "grad_norm": logs["grad_norm"]})


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(MODELS / folder, dtype=torch.float32)


def run(out, name, rows):
    job, keys = CASES[name]
    log, rate = Log(), LEARNING_RATES[job]
    with tempfile.TemporaryDirectory() as scratch:
        config = GKDConfig(
            output_dir=scratch, lmbda=0.0, beta=0.0, max_steps=STEPS, per_device_train_batch_size=ROWS, gradient_accumulation_steps=ACCUMULATION,
            learning_rate=rate, lr_scheduler_type="constant", optim="adamw_torch", adam_epsilon=1e-8, weight_decay=0.0, max_grad_norm=1.0,
            train_sampling_strategy="sequential", logging_steps=1, logging_nan_inf_filter=False, save_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(GOLDENS / "rows" / "tokenizer.json"), pad_token="<pad>", eos_token="<pad>")
        model, extra = load("model"), {}
        if job == "lora":
            model = peft.PeftModel.from_pretrained(model, MODELS / "adapter_fresh", is_trainable=True)
        trainer = (WeightedTrainer if keys else GKDTrainer)(
            model=model, teacher_model=load("other_model"), args=config, processing_class=tokenizer, data_collator=collate,
            train_dataset=Dataset.from_list(rows), callbacks=[log], **extra)
        trainer.kd = keys
        trainer.train()
        if job == "full":
            tensors = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
        else:
            tensors = {n: t.contiguous().clone() for n, t in peft.get_peft_model_state_dict(trainer.model, adapter_name="default").items()}
    folder = out / "cases" / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "final.safetensors")
    (folder / "expected.json").write_text(json.dumps({"steps": log.steps}, indent=1) + "\n")
    models = "../../../preference_training"
    adapter = {"adapter": "lora", "lora_r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "lora_target_linear": True,
               "lora_model_dir": f"{models}/adapter_fresh"} if job == "lora" else {}
    config = {"base_model": f"{models}/model", "kd_trainer": True, "teacher_model_name_or_path": f"{models}/other_model", **keys, **adapter,
              "datasets": [{"path": "../../rows.jsonl", "ds_type": "json"}], "sequence_len": 40, "shuffle_merged_datasets": False,
              "curriculum_sampling": True, "micro_batch_size": ROWS, "gradient_accumulation_steps": ACCUMULATION, "max_steps": STEPS,
              "learning_rate": rate, "lr_scheduler": "constant", "optimizer": "adamw_torch", "adam_epsilon": 1e-8, "weight_decay": 0.0,
              "max_grad_norm": 1.0, "bf16": False, "logging_steps": 1, "save_strategy": "no", "output_dir": "out"}
    (folder / "config.yml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    rows = make_rows()
    out.mkdir(parents=True, exist_ok=True)
    (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in CASES:
        run(out, name, rows)


if __name__ == "__main__":
    main()
