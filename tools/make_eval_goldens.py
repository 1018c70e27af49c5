#!/usr/bin/env python3
"""Writes tests/golden/eval: what lm-evaluation-harness says of items with choices and of answers, Python's re of
patterns, and transformers of tokenised rows.

    pip install -r tools/eval_requirements.txt
    tools/make_eval_goldens.py tests/golden/eval

The model is that of tests/golden/preference_training. `choices.jsonl` are the items, `rows.jsonl` the rows, and
expected.json what is said of them: log-likelihoods and greediness by lm_eval's HFLM in float32, accuracies by the
formulas of its multiple_choice tasks, with and without special tokens; loss and token accuracy of the rows.
`exact.jsonl` are prompts with targets; exact.json has the answers of HFLM's generate_until, and for each set of rules
what its filters and its exact_match make of them. rules.json has the same of answers that are written here, and
patterns.json what re.findall and re.sub find.
"""

import argparse
import json
import re
from pathlib import Path

import lm_eval.filters.extraction
import lm_eval.models.huggingface
import numpy as np
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import exact_match_hf_evaluate

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

# Prompts, perhaps with their own stop strings and most tokens; `target` says what is made of the answer.
QUESTIONS = [
    ({"prompt": "The river is"}, lambda text: text),
    ({"prompt": "She sings", "stop": [" "], "max_new_tokens": 20}, lambda text: text),
    ({"prompt": "a house and", "until": "e"}, lambda text: [text.upper(), "else"]),
    ({"prompt": "word " * 120, "max_gen_toks": 9}, lambda text: "!" + text + "."),
    ({"prompt": "<s>the stone", "stop": ["ing", "an"]}, lambda text: [text + " 12", "7"]),
    ({"prompt": "light", "stop": ["\n", "o"], "max_new_tokens": 3}, lambda text: "never"),
    ({"messages": [{"role": "user", "content": "where?"}], "stop": []}, lambda text: text),
    ({"prompt": "12 + 30 = "}, lambda text: 42),
]
STOPS, MAX_NEW_TOKENS = ["ou", "\n\n"], 12  # of items that do not say
# As command line options have them.
RULES = [
    {},
    {"ignore_case": True},
    {"ignore_punctuation": True, "strip": True},
    {"ignore_case": True, "ignore_punctuation": True, "ignore_numbers": True, "strip": True},
    {"regexes_to_ignore": ["[aeiou]+", "^.|.$"], "ignore_case": True},
    {"extract": r"[a-z]+", "match": -1},
    {"extract": r"(\d+)|([A-Z])", "match": 1, "fallback": "none"},
]
GSM8K = {"ignore_case": True, "regexes_to_ignore": [",", "\\$", "(?s).*#### ", "\\.$"]}
WRITTEN = [  # rules, answer, targets
    (GSM8K, "So 3 + 5.\n#### 1,008.", ["#### 1008"]),
    (GSM8K | {"extract": r"#### (\-?[0-9\.\,]+)"}, "That is\n#### 1,008.", ["Long\nway #### 1008"]),
    (GSM8K | {"extract": r"(-?[$0-9.,]{2,})|(-?[0-9]+)", "match": -1}, "It costs $18.00, no, 9", ["#### 9"]),
    (GSM8K | {"extract": r"(-?[$0-9.,]{2,})|(-?[0-9]+)", "match": -1}, "nothing", ["[invalid]"]),
    ({"extract": r"(x)?(y)?z", "fallback": " never "}, "z", ["never"]),
    ({"extract": r" (\w*)", "match": 1}, " one  two ", ["", "two"]),
    ({"strip": True}, "\u2003\n Paris \t\u00a0", ["Paris"]),
    ({}, " Paris", ["Paris"]),
    ({"ignore_case": True}, "ÄÖÜ ΣΑΣ straße", ["äöü σας straße"]),
    ({"ignore_case": True}, "ὈΔΥΣΣΕΎΣ ΣΑΣ. Σ ΣΑ'Σ, Α'Σ", ["ὀδυσσεύς σας. σ σα'ς, α'ς"]),
    ({"ignore_punctuation": True}, "«a-b_c» `d`", ["«abc» d"]),
    ({"ignore_numbers": True}, "a1b٣c", ["ab٣c"]),
    ({"ignore_case": True, "regexes_to_ignore": ["[A-Z]", "b"]}, "aBcD", ["ac"]),
    ({"ignore_punctuation": True, "regexes_to_ignore": [r"\."]}, "3.5!", ["35"]),
    ({}, "b", ["a", "b"]),
]
PATTERNS = [r"a*", r"a|", r"|a", r"(a)|(b)", r"(?i)É", r"\d+", r"\w+", r"\s+", r"\S", r"^a", r"b$", r"(?m)b$", r"(?s)a.b", r"a.b", r"\bа", r"a{,2}", r"a{2,}?", r"x\Z",
            r"(?P<q>a)(?P=q)", r"(a)\1", r"(?<=a)b", r"(?<!a)b", r"a(?=b)", r"[[:alpha:]]+", r"[]a]+", r"[^\W\d]+", "\\v", r"\u00e9", r"\x41", r"(?:ab)+", r"(?#note (b)a", r"\$", r"[\[a]",
            r"(a)?b", r"\Bb", r"a(?!b)", r"\.", r"(?x) a  b # c", "é{2}", r"(?i:A)b"]
TEXTS = ["", "aaab", "abab\nab\n", "Éé éé", "a1 ٣ 22\t_x", "x\n", "[:alph]a]", "а б", "aa ba a\vb", "A.$ a  b", "ab{,2}x"]


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


def answered():
    """The items with their targets, and the answers."""
    model = lm_eval.models.huggingface.HFLM(pretrained=str(MODEL), device="cpu", dtype="float32", batch_size=1)
    requests = []
    for i, (item, _) in enumerate(QUESTIONS):
        prompt = item["prompt"] if "prompt" in item else model.apply_chat_template(item["messages"])
        until = item.get("stop", item.get("until", STOPS))
        most = item.get("max_new_tokens", item.get("max_gen_toks", MAX_NEW_TOKENS))
        # The template has written the special tokens.
        requests.append(Instance(request_type="generate_until", doc={}, arguments=(prompt, {"until": until, "max_gen_toks": most, "do_sample": False}), idx=i))
    texts = []
    for (item, _), request in zip(QUESTIONS, requests):
        model.add_bos_token = None if "prompt" in item else False
        texts += model.generate_until([request], disable_tqdm=True)
    return [{**item, "target": target(text)} for (item, target), text in zip(QUESTIONS, texts)], texts


def judged(rules, text, targets):
    if "extract" in rules:
        options = {"regex_pattern": rules["extract"], "group_select": rules.get("match", 0), "fallback": rules.get("fallback", "[invalid]")}
        (text,) = lm_eval.filters.extraction.RegexFilter(**options).apply([[text]], [{}])[0] if enough(options, text) else [options["fallback"]]
    elif rules.get("strip"):
        (text,) = lm_eval.filters.extraction.WhitespaceFilter().apply([[text]], [{}])[0]
    targets = [str(target) for target in (targets if isinstance(targets, list) else [targets])]
    options = {name: rules[name] for name in ("regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers") if name in rules}
    score = exact_match_hf_evaluate(predictions=[text] * len(targets), references=targets, **options)["exact_match"]
    return text, bool(score > 0)


def enough(options, text):
    """Where there are fewer matches than the one that is wanted, the filter fails; Spillway takes the fallback."""
    count, wanted = len(re.findall(options["regex_pattern"], text)), options["group_select"]
    return count == 0 or -count <= wanted < count


def exact():
    items, texts = answered()
    sets = []
    for rules in RULES:
        results = [judged(rules, text, item["target"]) for item, text in zip(items, texts)]
        right = [result[1] for result in results]
        sets.append({"rules": rules, "extracted": [result[0] for result in results], "exact": right, "exact_match": float(np.mean(right)), "stderr": float(np.std(right, ddof=1) / np.sqrt(len(right)))})
    return items, {"stops": STOPS, "max_new_tokens": MAX_NEW_TOKENS, "texts": texts, "sets": sets}


def written():
    cases = []
    for rules, answer, targets in WRITTEN:
        text, right = judged(rules, answer, targets)
        cases.append({"rules": rules, "answer": answer, "targets": targets, "extracted": text, "exact": right})
    return cases


def patterns():
    def groups(match):
        return list(match) if isinstance(match, tuple) else [match]

    return [{"pattern": pattern, "found": [[groups(m) for m in re.findall(pattern, text)] for text in TEXTS], "removed": [re.sub(pattern, "", text) for text in TEXTS]} for pattern in PATTERNS]


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
    items, answers = exact()
    write_lines(out / "exact.jsonl", items)
    for name, value in {"exact": answers, "rules": written(), "patterns": {"texts": TEXTS, "patterns": patterns()}}.items():
        (out / f"{name}.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    expected = {"plain": choices(False), "special": choices(True), "rows": rows()}
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
