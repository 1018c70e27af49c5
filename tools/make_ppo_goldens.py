#!/usr/bin/env python3
"""Writes tests/golden/ppo: what TRL's PPOTrainer makes of a tiny policy and a tiny value model in a few rounds.

    pip install -r bench/peers/requirements.txt trl==1.10.0     # made with transformers 5.23, peft 0.21, torch 2.15
    python tools/make_ppo_goldens.py tests/golden/ppo [--only TEXT ...]

TRL 1.16 has no PPOTrainer, so the venv is another one than that of the other goldens. Everything runs on the CPU in
f32, with one thread. Prompts come in file order. Policy, adapters and reward model are those of tests/golden/preference_training, which
must be there; the prompts are those of tests/golden/online_rl.

    value_model/                         a classifier of one label, of other sizes than the policy
    prompts.jsonl                        rows with a `prompt`
    cases/NAME/config.yml                the case as a config; paths are relative to the folder
    cases/NAME/expected.json             what happened, with everything in it that was random
    cases/NAME/final.safetensors         the trained tensors of the policy after the last round
    cases/NAME/value.safetensors         those of the value model

expected.json holds `rounds`: the completions (`row`, `ids` with the end token, `finish_reason`, `logprobs` at the
temperature, `values` of each state and of the one behind the last token, where there is one, `rewards` with the score of the reward model before
penalties, `score` behind them, `advantages` of each token, `returns` of each state), and `order`: num_ppo_epochs permutations of them. `steps` is
what TRL logged of each round.

Three things differ from what TRL 1.10 does by itself:

- A round is micro batch x gradient_accumulation_steps x num_mini_batches, as it was when num_mini_batches came, and each mini batch is an update
  of gradient_accumulation_steps micro batches. TRL 1.10 leaves out num_mini_batches, and accelerate then takes one update in
  gradient_accumulation_steps micro batches, however small a mini batch is.
- The last batch of a data set updates after gradient_accumulation_steps micro batches, too, not after each.
- policy/entropy_avg is the mean over tokens. TRL's is over padding, too, where logits mean nothing.
"""

import argparse
import json
import math
import shutil
import tempfile
from pathlib import Path

from make_online_rl_goldens import make_prompts, number
from make_preference_training_goldens import LORA, MODEL, TOKENIZER, randomise_norms, trained_tensors, write_lines

import datasets
import numpy
import peft
import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

SHARED = Path(__file__).resolve().parent.parent / "tests" / "golden" / "preference_training"
LEARNING_RATES = {"full": 1e-3, "lora": 5e-3, "continued": 5e-3}
ROUNDS, SEEDS = 3, range(11, 60)
# Rounding must not decide what is clipped: no ratio and no value may come this close to a bound. The first seed that keeps it so is taken.
NEAR = 2e-5

# (name, job, micro batch, accumulation, TRL's arguments)
CASES = [
    ("plain_full", "full", 4, 1, {"num_ppo_epochs": 2}),
    ("plain_lora", "lora", 4, 1, {}),
    ("mini_batches_full", "full", 2, 1, {"num_mini_batches": 3, "num_ppo_epochs": 2}),
    ("mini_batches_lora", "lora", 2, 2, {"num_mini_batches": 2, "vf_coef": 0.5, "cliprange": 0.1, "cliprange_value": 0.05}),
    ("k3_whitened_lora", "lora", 4, 2, {"kl_estimator": "k3", "whiten_rewards": True, "gamma": 0.9, "lam": 0.8, "kl_coef": 0.2}),
    ("penalty_continued", "continued", 4, 1, {"missing_eos_penalty": 1.5, "temperature": 1.0}),
]


def write_value_model(out):
    torch.manual_seed(17)
    sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 3}
    model = LlamaForSequenceClassification(LlamaConfig(**{**MODEL, **sizes, "tie_word_embeddings": False}, num_labels=1))
    randomise_norms(model, torch.Generator().manual_seed(17))
    model.save_pretrained(out / "value_model")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, out / "value_model" / file)


def load(kind, folder):
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


class Recorder:
    """Looks over the shoulder of the functions that PPOTrainer.train() calls."""

    def __init__(self, pad, eos):
        self.pad, self.eos = pad, eos
        self.rounds, self.entropies, self.nearest = [], [], math.inf
        self.originals = {name: getattr(ppo_trainer, name) for name in ("batch_generation", "get_reward", "masked_whiten", "forward")}
        self.permutation, self.dataloader = numpy.random.permutation, ppo_trainer.DataLoader

    def __enter__(self):
        for name in self.originals:
            setattr(ppo_trainer, name, getattr(self, name))
        numpy.random.permutation = self.permute
        ppo_trainer.DataLoader = lambda *args, **kwargs: self.dataloader(*args, **{**kwargs, "shuffle": False})
        return self

    def __exit__(self, *_):
        for name, function in self.originals.items():
            setattr(ppo_trainer, name, function)
        numpy.random.permutation, ppo_trainer.DataLoader = self.permutation, self.dataloader

    def batch_generation(self, model, queries, *args):
        made, logits = self.originals["batch_generation"](model, queries, *args)
        self.context, responses = queries.shape[1], made[:, queries.shape[1]:]
        self.rows = [self.prompts.index([token for token in row if token != self.pad]) for row in queries.tolist()]
        self.lengths = [next((i for i, token in enumerate(row) if token == self.pad), len(row)) for row in responses.tolist()]
        for row, length in zip(responses.tolist(), self.lengths, strict=True):
            assert length and all(token == self.pad for token in row[length:])
            self.is_good &= length == len(row) or row[length - 1] == self.eos  # a padding token that was drawn would end it
        self.logits, self.responses, self.order = logits, responses, []
        self.logprobs = torch.log_softmax(logits, -1).gather(2, responses[..., None])[..., 0]
        return made, logits

    def get_reward(self, model, ids, pad, context):
        made = self.originals["get_reward"](model, ids, pad, context)
        if not isinstance(getattr(self, "values", None), torch.Tensor) or self.has_scores:
            self.values, self.has_scores, self.whitened = made[0][:, context - 1:, 0], False, []
        else:
            self.scores, self.has_scores = made[1].clone(), True
        return made

    def masked_whiten(self, values, mask, shift_mean=True):
        made = self.originals["masked_whiten"](values, mask, shift_mean)
        if shift_mean:
            self.add_round(values, made)
        return made

    def add_round(self, advantages, whitened):
        longest = self.responses.shape[1]
        completions = []
        for i, n in enumerate(self.lengths):
            states = min(n + 1, longest)
            ids = self.responses[i, :n].tolist()
            returns = (advantages[i] + self.values[i, :longest])[:states]
            completions.append({"row": self.rows[i], "ids": ids, "finish_reason": "stop" if ids[-1] == self.eos else "length",
                                "logprobs": [number(x) for x in self.logprobs[i, :n].tolist()], "values": [number(x) for x in self.values[i, :states].tolist()],
                                "rewards": {"reward_model": number(self.scores[i].item())},
                                "score": number(self.scores[i].item() - (0 if ids[-1] == self.eos else self.penalty)), "advantages": [number(x) for x in whitened[i, :n].tolist()],
                                "returns": [number(x) for x in returns.tolist()]})
        self.rounds.append({"completions": completions, "order": [], "taken": 0})

    def permute(self, count):
        order = self.permutation(count)
        self.rounds[-1]["order"] += order.tolist()
        return order

    def forward(self, model, ids, pad):
        made = self.originals["forward"](model, ids, pad)
        if torch.is_grad_enabled():
            logits = made[0].logits[:, self.context - 1:-1].detach() / self.temperature
            lengths = torch.tensor([next((i for i, token in enumerate(row) if token == self.pad), len(row)) for row in ids[:, self.context:].tolist()])
            mask = torch.arange(logits.shape[1]) < lengths[:, None]
            entropy = -(torch.softmax(logits, -1) * torch.log_softmax(logits, -1)).sum(-1)
            self.entropies.append((entropy * mask).sum().item() / mask.sum().item())
            self.look_at_bounds(ids, logits, made[1].detach()[:, self.context - 1:-1, 0])
        return made

    def look_at_bounds(self, ids, logits, values):
        """Returns how near ratios and values come to where they are clipped."""
        taken = self.rounds[-1]["taken"]
        numbers = self.rounds[-1]["order"][taken:taken + len(ids)]
        self.rounds[-1]["taken"] += len(ids)
        logprobs = torch.log_softmax(logits, -1).gather(2, ids[:, self.context:, None])[..., 0]
        for i, n in enumerate(numbers):
            length = self.lengths[n]
            ratio = torch.exp(logprobs[i] - self.logprobs[n])[:length]
            change = (values[i] - self.values[n, :-1])[:length + 1]
            for one, bounds in ((ratio, (1 - self.cliprange, 1 + self.cliprange)), (change, (-self.cliprange_value, self.cliprange_value))):
                self.nearest = min([self.nearest, *((one - bound).abs().min().item() for bound in bounds)])


class Trainer(PPOTrainer):
    def log(self, logs, *_args, **_kwargs):
        entropies, self.recorder.entropies = self.recorder.entropies, []
        left_out = {"eps", "lr", "episode"}
        self.logged.append({**{key: value for key, value in logs.items() if key not in left_out}, "policy/entropy_avg": sum(entropies) / len(entropies),
                            "learning_rate": logs["lr"]})


def make_trainer(out, one, seed, tokenizer, recorder, scratch):
    _, job, micro, accumulation, trl = one
    config = PPOConfig(
        output_dir=scratch, per_device_train_batch_size=micro, gradient_accumulation_steps=accumulation * trl.get("num_mini_batches", 1),
        learning_rate=LEARNING_RATES[job], lr_scheduler_type="linear", optim="adamw_torch", adam_epsilon=1e-8, weight_decay=0.0, logging_steps=1,
        save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, bf16=False, gradient_checkpointing=False, seed=seed,
        num_sample_generations=0, response_length=10, stop_token="eos", total_episodes=ROUNDS * micro * accumulation * trl.get("num_mini_batches", 1),
        **trl)
    model = load(transformers.AutoModelForCausalLM, SHARED / "model")
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    if job != "full":
        adapter = SHARED / ("adapter_continued" if job == "continued" else "adapter_fresh")
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    reference = None
    if job == "continued":  # the policy at step 0, not the base without an adapter
        reference = peft.PeftModel.from_pretrained(load(transformers.AutoModelForCausalLM, SHARED / "model"), SHARED / "adapter_continued")
    rows = [{"input_ids": tokenizer(row["prompt"])["input_ids"]} for row in make_prompts()]
    trainer = Trainer(args=config, processing_class=tokenizer, model=model, ref_model=reference,
                      reward_model=load(transformers.AutoModelForSequenceClassification, SHARED / "reward_model"),
                      value_model=load(transformers.AutoModelForSequenceClassification, out / "value_model"), train_dataset=Dataset.from_list(rows))
    config.gradient_accumulation_steps = accumulation
    trainer.accelerator.gradient_accumulation_steps = accumulation
    trainer.accelerator.gradient_state.plugin_kwargs.update({"sync_with_dataloader": False})
    trainer.logged, trainer.recorder = [], recorder
    recorder.temperature, recorder.prompts, recorder.is_good = config.temperature + 1e-7, [row["input_ids"] for row in rows], True
    recorder.cliprange, recorder.cliprange_value, recorder.penalty = config.cliprange, config.cliprange_value, config.missing_eos_penalty or 0
    return trainer


def train(out, one, tokenizer):
    for seed in SEEDS:
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        with tempfile.TemporaryDirectory() as scratch, Recorder(tokenizer.pad_token_id, tokenizer.eos_token_id) as recorder:
            trainer = make_trainer(out, one, seed, tokenizer, recorder, scratch)
            trainer.train()
        assert len(trainer.logged) == ROUNDS
        if recorder.is_good and recorder.nearest > NEAR:
            return trainer, recorder, seed
    raise SystemExit(f"{one[0]}: no seed is good")


def write_config(folder, one, seed):
    _, job, micro, accumulation, trl = one
    keys = {"base_model": "../../../preference_training/model", "rl": "ppo", "curriculum_sampling": True}
    if job != "full":
        adapter = "adapter_continued" if job == "continued" else "adapter_fresh"
        keys |= {"adapter": "lora", "lora_r": LORA["r"], "lora_alpha": LORA["lora_alpha"], "lora_dropout": 0.0, "lora_target_linear": True,
                 "lora_model_dir": f"../../../preference_training/{adapter}"}
    keys |= {"micro_batch_size": micro, "gradient_accumulation_steps": accumulation, "max_steps": ROUNDS, "learning_rate": LEARNING_RATES[job],
             "lr_scheduler": "linear", "optimizer": "adamw_torch", "adam_epsilon": 1e-8, "weight_decay": 0.0, "bf16": False, "logging_steps": 1,
             "save_strategy": "steps", "save_steps": ROUNDS, "seed": seed, "output_dir": "out", "reward_model_path": "../../../preference_training/reward_model",
             "value_model_path": "../../value_model", "response_length": 10, **trl}
    lines = [f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in keys.items()]
    lines[2:2] = ["datasets:", "  - path: ../../prompts.jsonl", "    ds_type: json"]
    (folder / "config.yml").write_text("\n".join(lines) + "\n")


def write_case(out, one, tokenizer):
    folder = out / "cases" / one[0]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trainer, recorder, seed = train(out, one, tokenizer)

    def lines(items):
        return ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)

    rounds = ",\n".join(f'{{"order": {json.dumps(r["order"])}, "completions": [\n{lines(r["completions"])}]}}' for r in recorder.rounds)
    (folder / "expected.json").write_text(f'{{"rounds": [\n{rounds}],\n"steps": [\n{lines(trainer.logged)}]}}\n')

    class Policy:
        model = trainer.model.policy

    save_file(trained_tensors(Policy, one[1]), folder / "final.safetensors")
    save_file({name: p.detach().clone() for name, p in trainer.model.value_model.named_parameters()}, folder / "value.safetensors")
    write_config(folder, one, seed)
    completions = [c for r in recorder.rounds for c in r["completions"]]
    stopped = sum(c["finish_reason"] == "stop" for c in completions)
    print(one[0], "seed", seed, f"{stopped}/{len(completions)} stopped, nearest {recorder.nearest:.1e}", *(json.dumps(step) for step in trainer.logged), sep="\n  ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="only cases whose names hold one of these")
    args = parser.parse_args()
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(TOKENIZER))
    tokenizer.padding_side = "left"
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.only and (args.out / "value_model").exists()):
        write_value_model(args.out)
    write_lines(args.out / "prompts.jsonl", [{"prompt": row["prompt"]} for row in make_prompts()])
    for one in CASES:
        if not args.only or any(text in one[0] for text in args.only):
            write_case(args.out, one, tokenizer)


if __name__ == "__main__":
    main()
