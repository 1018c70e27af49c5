#!/usr/bin/env python3
"""Writes tests/golden/online_rl: what TRL's GRPO, RLOO and Online DPO trainers make of a tiny model in a few optimizer steps.

    pip install -r bench/peers/requirements.txt      # made with trl 1.16, transformers 5.23, peft 0.21, torch 2.15
    python tools/make_online_rl_goldens.py tests/golden/online_rl [--only TEXT ...]

Everything runs on the CPU in f32, with one thread. Prompts come in file order. The Llama model and its adapters are those of
tests/golden/preference_training, which must be there; that model often ends a completion before the limit.

    model_qwen3/, adapter_qwen3_fresh/   a Qwen3 whose generation_config.json has two end tokens, and a fresh adapter of it
    model_untied/                        a Llama of one layer whose head is not tied, and whose pad_token_id occurs in the text
    prompts.jsonl                        rows with a `prompt` and a `bonus`, a column that a reward function reads
    rewards.py                           that function, for the child that calls reward functions
    cases/NAME/config.yml                the case as a config; paths are relative to the folder, modules to tests/golden/online_rl
    cases/NAME/expected.json             what happened, with everything in it that was random
    cases/NAME/final.safetensors         the trained tensors after the last step

expected.json holds

    prompt_ids    the ids of each row of prompts.jsonl, as TRL's tokenisation has them
    end_ids       what ends a completion
    rounds        for each generation: `step`, the optimizer step that was next (from 1); `order`, the permutation that TRL shuffled the
                  round with (slice k holds the completions order[k B], ... order[k B + B - 1] where B is micro_batch_size); and the
                  completions in the order of generation, a prompt's together: `row`, `ids` (with the end token), `finish_reason`,
                  `logprobs` under the policy that sampled them (at the temperature), `ref_logprobs` (GRPO with a reference), `rewards`
                  by name (null for None), and `advantage` (of Online DPO `score` instead, the weighted sum less the penalty)
    micro_steps   `round`, `completions` (numbers in that round) and `loss`: the losses of a step's micro-steps sum up to the step's
    steps         for each optimizer step what TRL logged

Online DPO: TRL rounds the logged loss to four digits and sums objective/* over padding, and gives reward functions padded ids. Here the
loss has all digits, and sums and ids are those of the completions. Of a list of `beta` TRL takes number `epoch`, a fraction, which is a
TypeError from the second step on: here it is the number of whole epochs.
"""

import argparse
import inspect
import json
import math
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

from make_preference_training_goldens import LORA, MODEL, TOKENIZER, learn_a_little, make_pairs, randomise_norms, start_from, trained_tensors, write_adapter, \
    write_lines
from online_rl_golden_cases import OWN, all_cases

import datasets
import peft
import torch
import transformers
from datasets import Dataset
from safetensors.torch import save_file
from transformers import LlamaConfig, PreTrainedTokenizerFast, Qwen3Config
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
from trl.rewards import get_repetition_penalty_reward, get_soft_overlong_punishment

SHARED = Path(__file__).resolve().parent.parent / "tests" / "golden" / "preference_training"
LEARNING_RATES = {"full": 1e-3, "lora": 5e-3}
# Rounding must not decide what is clipped or masked: nothing may come this close to a bound. The first seed that keeps it so is taken.
NEAR, SEEDS = 5e-4, range(11, 60)


# Rows, rewards, models.

def make_prompts():
    """Twelve prompts of different lengths; the third is much longer than the others."""
    prompts = [pair["prompt"] for pair in make_pairs()]
    return [{"prompt": prompts[i], "bonus": 0.25 * (i % 3)} for i in (0, 1, 6, 3, 5, 7, 8, 10, 2, 15, 17, 21)]


def ids_score(completion_ids, bonus, **_):
    """Between 0 and 2.7; None for one completion in five."""
    scores = []
    for ids, extra in zip(completion_ids, bonus):
        total = sum(ids)
        scores.append(None if total % 5 == 2 else (7 * total % 23) / 10 + extra)
    return scores


def reward_function(entry):
    if entry == OWN:
        return ids_score
    maker = {"get_soft_overlong_punishment": get_soft_overlong_punishment, "get_repetition_penalty_reward": get_repetition_penalty_reward}
    return maker[entry["name"]](*[value for key, value in entry.items() if key != "name"])


def write_qwen3(out, tokenizer):
    torch.manual_seed(7)
    config = Qwen3Config(**MODEL, head_dim=8)
    model = transformers.Qwen3ForCausalLM(config)
    randomise_norms(model, torch.Generator().manual_seed(7))
    learn_a_little(model, tokenizer, make_pairs())
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.encode(".", add_special_tokens=False)[0]]
    model.save_pretrained(out / "model_qwen3")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, out / "model_qwen3" / file)
    torch.manual_seed(9)
    write_adapter(out / "adapter_qwen3_fresh", load_model(out / "model_qwen3"), 0.0)


def write_untied(out, tokenizer):
    torch.manual_seed(8)
    model = transformers.LlamaForCausalLM(LlamaConfig(**{**MODEL, "tie_word_embeddings": False, "num_hidden_layers": 1, "pad_token_id": 225}))
    randomise_norms(model, torch.Generator().manual_seed(8))
    learn_a_little(model, tokenizer, make_pairs())
    model.save_pretrained(out / "model_untied")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / file, out / "model_untied" / file)


def load_model(folder, pad=None):
    overrides = {} if pad is None else {"pad_token_id": pad}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **overrides)


# Records what TRL does, as it happens.

def number(value):
    """In seven digits; None for NaN."""
    return None if math.isnan(value) else float(f"{value:.7g}")


class Log(transformers.TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, _args, state, _control, logs=None, **__):
        if logs and "loss" in logs:
            left_out = {"epoch", "total_flos", "step_time"}
            self.steps.append({"step": state.global_step, **{k: v for k, v in logs.items() if k not in left_out}})


class Recorder:
    """Beside a trainer with rounds (GRPO, RLOO)."""

    def start_record(self):
        self.rounds, self.micro_steps, self.prompt_ids, self.nearest = [], [], {}, math.inf

    def _generate(self, prompts):
        made = super()._generate(prompts)
        self.made_prompts, self.made_completions = made[:2]
        return made

    def _calculate_rewards(self, *args):
        self.made_rewards = super()._calculate_rewards(*args)
        return self.made_rewards.clone()

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        self.made_logps = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return self.made_logps

    def sampler_logprobs(self, output):
        lengths = torch.tensor([len(ids) for ids in self.made_completions])
        width = output["completion_ids"].shape[1]
        mask = torch.cat([output["prompt_mask"], (torch.arange(width) < lengths[:, None]).long()], dim=1)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        with torch.no_grad():
            return super()._get_per_token_logps_and_entropies(self.model, ids, mask, width)[0]

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        logps, completions = self.sampler_logprobs(output), []
        for i, row in enumerate(line["row"] for line in inputs):
            ids = self.made_completions[i]
            self.prompt_ids[row] = self.made_prompts[i]
            one = {"row": row, "ids": ids, "finish_reason": "stop" if ids[-1] in self.eos_token_ids else "length",
                   "logprobs": [number(x) for x in logps[i, : len(ids)].tolist()]}
            if "ref_per_token_logps" in output:
                one["ref_logprobs"] = [number(x) for x in output["ref_per_token_logps"][i, : len(ids)].tolist()]
            rewards = self.made_rewards[i].tolist()
            one["rewards"] = {name: number(x) for name, x in zip(self.reward_func_names, rewards, strict=True)}
            completions.append({**one, "advantage": number(output["advantages"][i].item())})
        self.rounds.append({"step": self.state.global_step + 1, "order": [], "completions": completions})
        return {**output, "number": torch.arange(len(inputs))}  # shuffled and cut with the rest

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        numbers = inputs["number"].tolist()
        self.rounds[-1]["order"] = [n for part in self._buffered_inputs for n in part["number"].tolist()]
        share = loss.item() / (1 if self.loss_is_scaled_for_ga else self.current_gradient_accumulation_steps)
        self.micro_steps.append({"round": len(self.rounds) - 1, "completions": numbers, "loss": number(share)})
        self.check_bounds(inputs)
        return loss

    def check_bounds(self, inputs):
        """Returns how near anything comes to where a comparison turns over."""
        logps, entropies, _ = (x if x is None else x.detach() for x in self.made_logps)
        mask, advantages = inputs["completion_mask"], inputs["advantages"][:, None]
        distances = []
        if isinstance(self, RLOOTrainer):
            ratio = torch.exp((logps * mask).sum(1, keepdim=True) - inputs["old_logps"][:, None])
        else:
            change = logps - inputs.get("old_per_token_logps", logps)
            mean = ((change * mask).sum(1) / mask.sum(1).clamp(min=1))[:, None]
            ratio = torch.exp(mean if self.importance_sampling_level == "sequence" else change)
            if self.off_policy_mask_threshold is not None:
                distances.append((-mean - self.off_policy_mask_threshold)[advantages < 0])
            if self.top_entropy_quantile < 1 and mask.any():
                kept = entropies[mask.bool()]
                gaps = kept - torch.quantile(kept, 1 - self.top_entropy_quantile)
                distances.append(gaps[gaps != 0])
        taken = (mask.bool() if ratio.shape == mask.shape else mask.any(1, keepdim=True)) & (advantages != 0)
        distances += [(ratio - bound)[taken] for bound in self.ratio_bounds()]
        self.nearest = min([self.nearest, *(d.abs().min().item() for d in distances if d.numel())])

    def ratio_bounds(self):
        loss = getattr(self, "loss_type", "rloo")
        if loss in ("sapo", "vespo"):
            return []
        if loss == "cispo":
            return [self.epsilon_high]
        return [1 - self.epsilon_low, 1 + self.epsilon_high, *([self.args.delta] if getattr(self.args, "delta", None) else [])]


class OnlineDPORecorder(OnlineDPOTrainer):
    """A recorder that wants one micro-step a step, or the objective/* could not be replaced."""

    def start_record(self):
        self.rounds, self.micro_steps, self.prompt_ids, self.nearest, self.objectives = [], [], {}, math.inf, []

    @property
    def beta(self):
        whole_epochs = SimpleNamespace(epoch=int(self.state.epoch or 0))
        return OnlineDPOTrainer.beta.fget(SimpleNamespace(_beta=self._beta, state=whole_epochs))

    def _generate(self, *args):
        self.made = super()._generate(*args)
        return self.made

    def _forward(self, *args):
        logps = super()._forward(*args)
        self.made_logps.append(logps.detach())
        return logps

    def _calculate_rewards_from_functions(self, prompts, completions, completion_ids_list, **columns):
        lengths = self.made[3].sum(1).tolist()
        own = [ids[:n] for ids, n in zip(completion_ids_list, lengths, strict=True)]
        self.made_ids = own
        self.made_rewards = [f(prompts=prompts, completions=completions, completion_ids=own, **columns) for f in self.reward_funcs]
        self.made_scores = super()._calculate_rewards_from_functions(prompts, completions, own, **columns)
        return self.made_scores  # the penalty comes off in place

    def training_step(self, model, inputs, num_items_in_batch=None):
        self.made_logps, rows, step = [], inputs["row"], self.state.global_step + 1
        loss = super().training_step(model, inputs, num_items_in_batch).item()
        (prompts, prompt_mask, _, mask, _), (policy, reference) = self.made, self.made_logps
        completions = []
        for i, row in enumerate(rows):
            self.prompt_ids[row] = prompts[i][prompt_mask[i].bool()].tolist()
            for j in (i, i + len(rows)):  # TRL has all first completions, then all second ones
                ids = self.made_ids[j]
                completions.append({
                    "row": row, "ids": ids, "finish_reason": "stop" if ids[-1] in self.eos_token_ids else "length",
                    "logprobs": [number(x) for x in policy[j, : len(ids)].tolist()], "ref_logprobs": [number(x) for x in reference[j, : len(ids)].tolist()],
                    "rewards": {name: one[j] for name, one in zip(self.reward_func_names, self.made_rewards, strict=True)},
                    "score": number(self.made_scores[j].item())})
        order = list(range(len(completions)))
        self.rounds.append({"step": step, "order": order, "completions": completions})
        self.micro_steps.append({"round": len(self.rounds) - 1, "completions": order, "loss": number(loss)})
        self.replace_objectives(loss, policy * mask, reference * mask)
        return torch.tensor(loss)

    def replace_objectives(self, loss, policy, reference):
        kl, scores = (policy - reference).sum(1), self.made_scores
        self.objectives.append({"loss": loss, "objective/kl": kl.mean().item(), "objective/entropy": -policy.sum(1).mean().item(),
                                "objective/non_score_reward": (-self.beta * kl).mean().item(),
                                "objective/rlhf_reward": (scores - self.beta * kl).mean().item()})
        pairs = kl.view(2, -1)
        if self.state.global_step:
            self.nearest = min(self.nearest, self.beta * (pairs[0] - pairs[1]).abs().min().item())


class GRPORecorder(Recorder, GRPOTrainer):
    pass


class RLOORecorder(Recorder, RLOOTrainer):
    pass


TRAINERS = {"grpo": (GRPORecorder, GRPOConfig), "gdpo": (GRPORecorder, GRPOConfig), "rloo": (RLOORecorder, RLOOConfig),
            "online_dpo": (OnlineDPORecorder, OnlineDPOConfig)}


def base_folders(out, one):
    """The model's folder and that of the adapter, as paths from `out`."""
    if one["model"] == "qwen3":
        return "model_qwen3", "adapter_qwen3_fresh"
    if one["model"] == "untied":
        return "model_untied", None
    return "../preference_training/model", "../preference_training/" + ("adapter_continued" if one["job"] == "continued" else "adapter_fresh")


def folder_of(out, name):
    if name is None:
        return None
    return SHARED / Path(name).name if name.startswith("../") else out / name


def make_trainer(out, one, tokenizer, log, scratch):
    trainer_class, config_class = TRAINERS[one["rl"]]
    job, trl = one["job"], dict(one["trl"])
    functions = [reward_function(entry) for entry in trl.pop("reward_funcs")]
    extra = {"multi_objective_aggregation": "normalize_then_sum"} if one["rl"] == "gdpo" else {}
    extra |= {"train_sampling_strategy": "sequential"} if one["rl"] == "online_dpo" else {"shuffle_dataset": False}
    config = config_class(
        output_dir=scratch, max_steps=one["steps"], per_device_train_batch_size=one["micro"], gradient_accumulation_steps=one["accumulation"],
        learning_rate=LEARNING_RATES["full" if job == "full" else "lora"], lr_scheduler_type="constant", optim="adamw_torch", adam_epsilon=1e-8,
        weight_decay=0.0, max_grad_norm=1.0, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, bf16=False,
        gradient_checkpointing=False, seed=one["seed"], **extra, **trl)
    base, adapter = (folder_of(out, name) for name in base_folders(out, one))
    model, peft_arguments = load_model(base, one["pad"]), {}
    if job == "lora":
        peft_arguments["peft_config"] = peft.LoraConfig(**LORA, task_type="CAUSAL_LM")
    elif job == "continued":
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    rows = [{**row, "row": i} for i, row in enumerate(make_prompts())]
    trainer = trainer_class(model=model, args=config, reward_funcs=functions, processing_class=tokenizer, train_dataset=Dataset.from_list(rows),
                            callbacks=[log], **peft_arguments)
    if job == "lora":
        start_from(trainer, adapter)
    trainer.start_record()
    return trainer


# Files of a case.

def write_config(out, folder, one):
    base, adapter = (f"../../{name}" for name in base_folders(out, one))
    keys = {"base_model": base} | ({} if one["pad"] is None else {"overrides_of_model_config": {"pad_token_id": one["pad"]}})
    keys |= {"rl": one["rl"], "datasets": None, "curriculum_sampling": True}
    if one["job"] != "full":
        keys |= {"adapter": "lora", "lora_r": LORA["r"], "lora_alpha": LORA["lora_alpha"], "lora_dropout": 0.0, "lora_target_linear": True,
                 "lora_model_dir": adapter}
    keys |= {"micro_batch_size": one["micro"], "gradient_accumulation_steps": one["accumulation"], "max_steps": one["steps"],
             "learning_rate": LEARNING_RATES["full" if one["job"] == "full" else "lora"], "lr_scheduler": "constant", "optimizer": "adamw_torch",
             "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": False, "logging_steps": 1, "save_strategy": "no",
             "seed": one["seed"], "output_dir": "out", "trl": None}

    def line(key, value):
        return f"{key}: {value if isinstance(value, str) and value not in ('no', 'none') else json.dumps(value)}"  # JSON is YAML

    lines = []
    for key, value in keys.items():
        if key == "datasets":
            lines += ["datasets:", "  - path: ../../prompts.jsonl", "    ds_type: json"]
        elif key == "trl":
            lines += ["trl:"] + [f"  {line(*item)}" for item in one["trl"].items()]
        else:
            lines.append(line(key, value))
    (folder / "config.yml").write_text("\n".join(lines) + "\n")


def write_expected(path, trainer, steps):
    def lines(items):
        return ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)

    rounds = ",\n".join(f'{{"step": {one["step"]}, "order": {one["order"]}, "completions": [\n{lines(one["completions"])}]}}' for one in trainer.rounds)
    prompts = [trainer.prompt_ids.get(row) for row in range(len(make_prompts()))]
    path.write_text(f'{{"prompt_ids": [\n{lines(prompts)}],\n"end_ids": {trainer.eos_token_ids},\n"rounds": [\n{rounds}],\n'
                    f'"micro_steps": [\n{lines(trainer.micro_steps)}],\n"steps": [\n{lines(steps)}]}}\n')


def train(out, one, tokenizer):
    for seed in SEEDS:
        log = Log()
        with tempfile.TemporaryDirectory() as scratch:
            trainer = make_trainer(out, {**one, "seed": seed}, tokenizer, log, scratch)
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        assert len(log.steps) == one["steps"] and all(v is None or math.isfinite(v) for step in log.steps for v in step.values())
        if trainer.nearest > NEAR:
            return trainer, log.steps
    raise SystemExit(f"{one['name']}: with every seed something comes within {NEAR} of a bound; change the case")


def write_case(out, one, tokenizer):
    folder = out / "cases" / one["name"]
    folder.mkdir(parents=True)
    trainer, steps = train(out, one, tokenizer)
    online_dpo = one["rl"] == "online_dpo"
    if online_dpo:
        steps = [step | ours for step, ours in zip(steps, trainer.objectives, strict=True)]
    for row, line in enumerate(make_prompts()):
        ids = tokenizer(line["prompt"], add_special_tokens=not online_dpo)["input_ids"]
        assert trainer.prompt_ids.setdefault(row, ids) == ids
    write_expected(folder / "expected.json", trainer, steps)
    save_file(trained_tensors(trainer, one["job"]), folder / "final.safetensors")
    write_config(out, folder, {**one, "seed": trainer.args.seed})
    return trainer, steps


def summary(trainer, steps):
    """Prints what to look at when cases change: whether the case does what it is there for."""
    completions = [c for one in trainer.rounds for c in one["completions"]]
    stopped = sum(c["finish_reason"] == "stop" for c in completions)
    keys = ("loss", "grad_norm", "clip_ratio/low_mean", "clip_ratio/high_mean", "cispo_clip_ratio", "kl", "entropy", "entropy_coef", "frac_reward_zero_std")
    shown = {key: [step.get(key) for step in steps] for key in keys}
    values = " ".join(f"{key} " + ",".join("-" if v is None else f"{v:.4f}" for v in row) for key, row in shown.items() if any(v is not None for v in row))
    return f"seed {trainer.args.seed}, {stopped}/{len(completions)} stopped, nearest {trainer.nearest:.1e}, {values}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="only cases whose names hold one of these")
    args = parser.parse_args()
    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    transformers.logging.disable_progress_bar()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(TOKENIZER))
    out = args.out
    out.mkdir(parents=True, exist_ok=True)
    if not (args.only and (out / "model_qwen3").exists()):
        write_qwen3(out, tokenizer)
    if not (args.only and (out / "model_untied").exists()):
        write_untied(out, tokenizer)
    if not args.only:
        shutil.rmtree(out / "cases", ignore_errors=True)
    write_lines(out / "prompts.jsonl", make_prompts())
    (out / "rewards.py").write_text('"""The reward function of these cases that is not built in."""\n\n\n' + inspect.getsource(ids_score))
    for one in all_cases():
        if not args.only or any(text in one["name"] for text in args.only):
            shutil.rmtree(out / "cases" / one["name"], ignore_errors=True)
            print(one["name"], summary(*write_case(out, one, tokenizer)), flush=True)


if __name__ == "__main__":
    main()
