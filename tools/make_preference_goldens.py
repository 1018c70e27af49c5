#!/usr/bin/env python3
"""Writes tests/golden/rows/preferences.json: rows and the ids that axolotl 0.19 and TRL 1.16 make of them for DPO, KTO, ORPO and reward models.

Needs what make_row_goldens.py needs, and its tokenizer in tests/golden/rows/.
"""
import copy
import json
import pathlib
import types

from axolotl.prompt_strategies.bradley_terry.chat_template import load as load_reward
from axolotl.prompt_strategies.dpo import load as load_dpo
from axolotl.prompt_strategies.kto import load as load_kto
from axolotl.prompt_strategies.orpo import load as load_orpo
from axolotl.utils.dict import DictDefault
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer
from trl.experimental.orpo import ORPOTrainer

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "rows"

WITH_BOS = ("{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def chat(*turns):
    return [{"role": role, "content": text} for role, text in turns]


TEXT = {"prompt": "p1", "input": "p2", "question": "p3", "instruction": "p4", "chosen": "good é", "rejected": "bad", "completion": "fine", "label": True}
CONVERSATIONS = {"prompt": "p", "chosen": chat(("user", "What is the capital?"), ("assistant", "Paris")),
                 "rejected": chat(("user", "What is the capital?"), ("assistant", "Rome"))}
LONG = {"chosen": chat(("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "yes<|im_end|>")),
        "rejected": chat(("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "no "))}
DPO_ROWS = {
    "default": [TEXT, {**TEXT, "system": "Be brief."}, {"instruction": "x", "chosen_response": "c", "rejected_response": "r"}], "icr": [TEXT, {**TEXT, "system": "s"}],
    "intel": [TEXT, {**TEXT, "system": ""}], "prompt_pairs": [TEXT], "ultra": [CONVERSATIONS], "argilla_chat": [CONVERSATIONS]}
KTO_ROWS = {"argilla": [TEXT, {**TEXT, "system": "s", "label": False}], "intel": [TEXT], "prompt_pairs": [TEXT], "ultra": [TEXT],
            "argilla_chat": [{"completion": LONG["chosen"], "label": False}]}
TEMPLATE_ROWS = [{"messages": chat(("user", "a"), ("assistant", "b"), ("user", "c")), "chosen": {"role": "assistant", "content": "x y"}, "rejected": "z"},
                 {"messages": "just text", "chosen": chat(("user", "ignored"), ("assistant", "x")), "rejected": chat(("assistant", "z\n"))}]
MAPPED = {"field_messages": "conversation", "field_chosen": "good", "field_rejected": "bad", "message_property_mappings": {"role": "from", "content": "value"},
          "roles": {"user": ["human"], "assistant": ["gpt"]}}
MAPPED_ROWS = [{"conversation": [{"from": "human", "value": "hi"}], "good": {"from": "gpt", "value": "ok"}, "bad": {"from": "gpt", "value": "no"}}]
NECTAR = [{"prompt": "p", "answers": [{"answer": "a", "rank": 2}, {"answer": "b", "rank": 3}, {"answer": "c", "rank": 1}, {"answer": "d", "rank": 3}]}]
OWN = {"field_prompt": "question", "prompt_format": "[{system}] {prompt} ->", "chosen_format": "{chosen}.", "field_rejected": "completion"}
OWN_KTO = {"field_prompt": "question", "prompt_format": "Q: {prompt}\n", "completion_format": "A: {completion}", "field_label": "label"}
COLUMNS = [[{"prompt": "The sky is", "chosen": " blue.", "rejected": " green."}, {"prompt": "a ", "chosen": "b<|im_end|>", "rejected": "c"}],
           [{"chosen": "The sky is blue.", "rejected": "The sky is green."}, {"chosen": "é1", "rejected": "é2"}, {"chosen": "abc", "rejected": "abcdef"}],
           [{"prompt": chat(("user", "sky?")), "chosen": chat(("assistant", "blue")), "rejected": chat(("assistant", "green"))}],
           [CONVERSATIONS | {"prompt": None}, LONG]]
UNPAIRED = [[{"prompt": "The sky is", "completion": " blue.", "label": True}, {"prompt": "The sky is", "completion": " green.", "label": False}],
            [{"prompt": chat(("user", "sky?")), "completion": chat(("assistant", "blue")), "label": True}]]


def without_none(rows):
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def trl_rows(tokenizer, trainer, config, rows, double_bos=False):
    args = config(output_dir="unused", max_length=None, bf16=False, use_cpu=True, report_to=[])
    fake = types.SimpleNamespace(_tokenizer=tokenizer, calculate_KL=False, desirable_weight=1.0, undesirable_weight=1.0)
    made = trainer._prepare_dataset(fake, Dataset.from_list(rows), tokenizer, args, "train")
    out = []
    for m in made:
        ids = {k: m[k] for k in ("prompt_ids", "chosen_ids", "rejected_ids", "completion_ids", "label") if m.get(k) is not None}
        if double_bos and ids.get("prompt_ids"):
            if ids["prompt_ids"][:2] == [tokenizer.bos_token_id] * 2:  # as axolotl's DPO trainer has it
                ids["prompt_ids"] = ids["prompt_ids"][1:]
        out.append(ids)
    return out


def orpo_rows(tokenizer, rows):
    fake = types.SimpleNamespace(is_encoder_decoder=False, processing_class=tokenizer, max_length=100000)
    fake.build_tokenized_answer = lambda prompt, answer: ORPOTrainer.build_tokenized_answer(fake, prompt, answer)
    out = []
    for r in rows:
        made = ORPOTrainer.tokenize_row(fake, r)
        # The library splits each completion by itself; what the model sees is prompt and completion together.
        out.append({"chosen": made["chosen_input_ids"], "rejected": made["rejected_input_ids"]})
    return out


def transformed(load, kind, rows, config, tokenizer):
    cfg = DictDefault({"datasets": [config], "chat_template": "jinja", "chat_template_jinja": config.get("chat_template_jinja")})
    made = load(kind, cfg, dataset_idx=0)
    transform = made[0] if isinstance(made, tuple) else made
    takes_tokenizer = "tokenizer" in transform.__code__.co_varnames[:transform.__code__.co_argcount]
    return [transform(copy.deepcopy(r), **({"tokenizer": tokenizer} if takes_tokenizer else {})) for r in rows]


def only(rows, names):
    return [{k: r[k] for k in names} for r in rows]


def main():
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(OUT))
    cases = []

    def add(name, rows, objective, made, config):
        cases.append({"name": name, "objective": objective, "config": config, "rows": rows, "made": made})

    pair, single = ("prompt", "chosen", "rejected"), ("prompt", "completion", "label")
    for marks in ("chatml", "llama3"):
        for kind, rows in DPO_ROWS.items():
            texts = transformed(load_dpo, f"{marks}.{kind}", rows, {}, tokenizer)
            add(f"dpo {marks}.{kind}", rows, "pairs", trl_rows(tokenizer, DPOTrainer, DPOConfig, only(texts, pair)), {"type": f"{marks}.{kind}"})
        for kind, rows in KTO_ROWS.items():
            texts = transformed(load_kto, f"{marks}.{kind}", rows, {}, tokenizer)
            add(f"kto {marks}.{kind}", rows, "unpaired", trl_rows(tokenizer, KTOTrainer, KTOConfig, only(texts, single)), {"type": f"{marks}.{kind}"})
    for template in (tokenizer.chat_template, WITH_BOS):
        for kind, rows, extra in (("chat_template.default", TEMPLATE_ROWS, {}), ("chat_template.default", MAPPED_ROWS, MAPPED), ("chat_template.argilla_chat", [LONG], {})):
            config = {"type": kind, "chat_template_jinja": template, **extra}
            texts = transformed(load_dpo, kind, rows, config, tokenizer)
            add(f"dpo {kind}", rows, "pairs", trl_rows(tokenizer, DPOTrainer, DPOConfig, only(texts, pair), double_bos=True), config)
        config = {"type": "chat_template.argilla", "chat_template_jinja": template}
        rows = [LONG | {"chosen": LONG["chosen"][1:], "rejected": LONG["rejected"][1:]}, CONVERSATIONS | {"system": "s"}]
        add("orpo", rows, "orpo", orpo_rows(tokenizer, transformed(load_orpo, "chat_template.argilla", rows, config, tokenizer)), config)
    add("nectar", NECTAR, "pairs", trl_rows(tokenizer, DPOTrainer, DPOConfig, transformed(load_dpo, "zephyr.nectar", NECTAR, {}, tokenizer)), {"type": "zephyr.nectar"})
    for rows in ([TEXT], [TEXT | {"system": "s"}]):
        texts = transformed(load_dpo, "user_defined.default", rows, {"type": OWN}, tokenizer)
        add("own", rows, "pairs", trl_rows(tokenizer, DPOTrainer, DPOConfig, only(texts, pair)), {"properties": OWN})
        texts = transformed(load_kto, "user_defined.default", rows, {"type": OWN_KTO}, tokenizer)
        add("own kto", rows, "unpaired", trl_rows(tokenizer, KTOTrainer, KTOConfig, only(texts, single)), {"properties": OWN_KTO})
    for rows in COLUMNS:
        for row in without_none(rows):  # TRL asks the first row alone what the columns hold
            add("columns", [row], "pairs", trl_rows(tokenizer, DPOTrainer, DPOConfig, [row]), {})
            add("columns, unpaired", [row], "unpaired", trl_rows(tokenizer, KTOTrainer, KTOConfig, [row]), {})
            add("columns, reward", [row], "reward", trl_rows(tokenizer, RewardTrainer, RewardConfig, [row]), {})
    for rows in UNPAIRED:
        add("columns, labelled", rows, "unpaired", trl_rows(tokenizer, KTOTrainer, KTOConfig, rows), {})
    reward_rows = [{"system": "s", "input": "i", "chosen": "c", "rejected": "r"}, {"system": "", "input": "i", "chosen": "c\n", "rejected": "r"}]
    strategy = load_reward(tokenizer, DictDefault({"sequence_len": 2048, "reward_model": True, "train_on_inputs": False}), {"type": "chat_template"})
    made = [strategy._tokenize_single_prompt(dict(r)) for r in reward_rows]
    add("bradley_terry", reward_rows, "reward", [{k: list(m[k]) for k in ("chosen_ids", "rejected_ids")} for m in made], {"type": "bradley_terry.chat_template"})
    (OUT / "preferences.json").write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
