#!/usr/bin/env python3
"""Writes tests/golden/eval: what lm-evaluation-harness says of items with choices, and transformers of tokenised rows.

    pip install -r tools/eval_requirements.txt
    tools/make_eval_goldens.py tests/golden/eval

The model is that of tests/golden/preference_training. `choices.jsonl` are the items, `rows.jsonl` the rows, and
expected.json what is said of them: log-likelihoods and greediness by lm_eval's HFLM in float32, accuracies by the
formulas of its multiple_choice tasks, with and without special tokens; loss and token accuracy of the rows.
"""

import argparse
import json
from pathlib import Path

import lm_eval.models.huggingface
import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance

MODEL = Path(__file__).resolve().parent.parent / "tests/golden/preference_training/model"
ITEMS = [
    {"context": "The river is", "choices": ["old", "a house", "green and far"], "gold": 1},
    {"context": "She sings ", "choices": ["loud", "and walks"], "gold": 0},
    {"context": "Question: where?\n\nAnswer:", "choices": ["here", "there", "nowhere", "é à côté"], "gold": 3},
    {"context": "", "choices": ["the stone", "light"], "gold": 0},
    {"context": "no space", "choices": ["between", " them"], "gold": 1, "delimiter": ""},
    {"context": "equal", "choices": ["one", "one"], "gold": 1},
    {"context": "word " * 200, "choices": ["long", "longer still"], "gold": 1},
]
ROWS = [([5, 9, 17, 33, 2, 8], [-100, -100, 17, 33, 2, 8]), ([40, 41, 42], [40, 41, 42]), ([7, 300, 12, 77, 90, 4, 5, 6, 11], [-100] * 5 + [4, 5, 6, 11])]


def pairs():
    return [(item["context"], item.get("delimiter", " ") + choice) for item in ITEMS for choice in item["choices"]]


def choices(adds_special_tokens):
    model = lm_eval.models.huggingface.HFLM(pretrained=str(MODEL), device="cpu", dtype="float32", batch_size=1, add_bos_token=adds_special_tokens)
    requests = [Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=i) for i, pair in enumerate(pairs())]
    said = iter(model.loglikelihood(requests, disable_tqdm=True))
    items, right = [], {"acc": [], "acc_norm": [], "acc_bytes": []}
    for item in ITEMS:
        scores = [next(said) for _ in item["choices"]]
        sums = np.array([score for score, _ in scores])
        items.append({"log_probs": [float(score) for score, _ in scores], "is_greedy": [bool(greedy) for _, greedy in scores]})
        right["acc"].append(np.argmax(sums) == item["gold"])
        right["acc_norm"].append(np.argmax(sums / np.array([float(len(c)) for c in item["choices"]])) == item["gold"])
        right["acc_bytes"].append(np.argmax(sums / np.array([float(len(c.encode())) for c in item["choices"]])) == item["gold"])
    result = {"choices": items}
    for name, values in right.items():
        result[name] = float(np.mean(values))
        result[name + "_stderr"] = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return result


def rows():
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    loss, right, targets = 0.0, 0, 0
    for ids, labels in ROWS:
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1]
        expected = torch.tensor(labels[1:])
        kept = expected >= 0
        loss += torch.nn.functional.cross_entropy(logits[kept], expected[kept], reduction="sum").item()
        right += (logits[kept].argmax(-1) == expected[kept]).sum().item()
        targets += kept.sum().item()
    return {"loss": loss / targets, "mean_token_accuracy": right / targets, "targets": targets}


def write_lines(path, items):
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    write_lines(out / "choices.jsonl", ITEMS)
    write_lines(out / "rows.jsonl", [{"input_ids": ids, "labels": labels, "attention_mask": [1] * len(ids)} for ids, labels in ROWS])
    expected = {"plain": choices(False), "special": choices(True), "rows": rows()}
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
