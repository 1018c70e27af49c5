#!/usr/bin/env python3
"""Writes tests/golden/truncation.json: how TRL 1.16 cuts preference rows of given lengths.

Needs trl and torch. Rows whose prompt fills max_length are dropped before the collator, as DPOTrainer drops them.
"""
import json
import pathlib
import random

from trl.trainer.dpo_trainer import DataCollatorForPreference

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "truncation.json"


def main():
    rng, cases = random.Random(2), []
    for mode in ("keep_start", "keep_end"):
        for _ in range(40):
            prompt, chosen, rejected = rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 9)
            if mode == "keep_end":
                rejected = chosen  # else TRL gives each completion a prompt of its own length
            row = {"prompt_ids": list(range(1, prompt + 1)), "chosen_ids": list(range(101, 101 + chosen)),
                   "rejected_ids": list(range(201, 201 + rejected))}
            limit = rng.randint(2, 14)
            case = {"mode": mode, "max_length": limit, "row": row, "made": None}
            if mode == "keep_end" or prompt < limit:
                batch = DataCollatorForPreference(pad_token_id=0, max_length=limit, truncation_mode=mode)([row])
                case["made"] = []
                for ids, there, completion in zip(batch["input_ids"], batch["attention_mask"], batch["completion_mask"]):
                    case["made"].append({"prompt": ids[(there == 1) & (completion == 0)].tolist(),
                                         "completion": ids[completion == 1].tolist()})
            cases.append(case)
    OUT.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


main()
