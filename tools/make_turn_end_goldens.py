#!/usr/bin/env python3
"""Writes tests/golden/rows/turn_ends.json: which tokens axolotl's and TRL's own code make targets of, template by template, and prints
the table of docs/data/chat_templates.md.

Each family has the special tokens, the EOS and the ends that its makers' tokenizer_config.json and generation_config.json have; words are
those of the tiny tokenizer of tests/golden/rows/. Needs what make_row_goldens.py needs; TRL's templates come with TRL.
"""
import json
import logging
import pathlib
import types

import trl
from axolotl.prompt_strategies.chat_template import load as load_chat_template
from axolotl.utils.dict import DictDefault
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "rows"
TRL = pathlib.Path(trl.__file__).parent / "chat_templates"
BUILT_IN = pathlib.Path(__file__).resolve().parent.parent / "src" / "text" / "chat_templates"

CHATML = (BUILT_IN / "chatml.jinja").read_text()
# The turns as these two models' templates write them, without what they say of tools and dates.
GLM4 = ("[gMASK]<sop>{% for m in messages %}{% if m.role == 'system' %}<|system|>{% elif m.role == 'user' %}<|user|>{% elif m.role == 'assistant' %}<|assistant|>"
        "{% else %}<|observation|>{% endif %}{{ '\n' + m.content }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
SMOLLM3 = ("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n' + m.content + '<|im_end|>\n' }}"
           "{% endgeneration %}{% else %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n' }}{% endif %}")
# Llama 2's: a space stands before the end.
LLAMA2 = ("{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + ' ' + eos_token }}"
          "{% endif %}{% endfor %}")


def of_trl(name):
    return (TRL / f"{name}.jinja").read_text()


# name; template; TRL's template for assistant_only_loss; EOS; ends of generation_config.json; other special tokens; axolotl's eot_tokens
FAMILIES = [
    ("Gemma 2", of_trl("gemma"), of_trl("gemma_training"), "<eos>", ["<eos>", "<end_of_turn>"], ["<bos>", "<start_of_turn>"], ["<end_of_turn>"]),
    ("Gemma 3", of_trl("gemma3"), of_trl("gemma3_training"), "<eos>", ["<eos>", "<end_of_turn>"], ["<bos>", "<start_of_turn>"], ["<end_of_turn>"]),
    ("Phi-3", of_trl("phi3"), of_trl("phi3_training"), "<|endoftext|>", ["<|endoftext|>", "<|assistant|>", "<|end|>"], ["<|user|>", "<|system|>"], ["<|end|>"]),
    ("Phi-4", (BUILT_IN / "phi_4.jinja").read_text(), (BUILT_IN / "phi_4.jinja").read_text(), "<|im_end|>", ["<|endoftext|>", "<|im_end|>"], ["<|im_sep|>"], ["<|im_end|>"]),
    ("Qwen2.5", of_trl("qwen2_5"), of_trl("qwen2_5_training"), "<|im_end|>", ["<|im_end|>", "<|endoftext|>"], [], ["<|im_end|>"]),
    ("Qwen2.5, base", of_trl("qwen2_5"), of_trl("qwen2_5_training"), "<|endoftext|>", ["<|endoftext|>"], [], ["<|im_end|>"]),
    ("Qwen3", of_trl("qwen3"), of_trl("qwen3_training"), "<|im_end|>", ["<|im_end|>", "<|endoftext|>"], ["<think>", "</think>"], ["<|im_end|>"]),
    ("Llama 3", of_trl("llama3"), of_trl("llama3_training"), "<|eot_id|>", ["<|end_of_text|>", "<|eot_id|>"],
     ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"], ["<|eot_id|>"]),
    ("Llama 3, base", of_trl("llama3"), of_trl("llama3_training"), "<|end_of_text|>", ["<|end_of_text|>"],
     ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], ["<|eot_id|>"]),
    ("Mistral v0.3", (BUILT_IN / "mistral_v2v3.jinja").read_text(), None, "</s>", ["</s>"], ["[INST]", "[/INST]"], ["</s>"]),
    ("SmolLM3", SMOLLM3, SMOLLM3, "<|im_end|>", ["<|im_end|>"], ["<think>", "</think>"], ["<|im_end|>"]),
    ("GLM-4", GLM4, None, "<|endoftext|>", ["<|endoftext|>", "<|user|>", "<|observation|>"], ["[gMASK]", "<sop>", "<|system|>", "<|assistant|>"], ["<|user|>"]),
    ("chatml on a base model", CHATML, None, "<|endoftext|>", ["<|endoftext|>"], [], ["<|im_end|>"]),
    ("Llama 2", LLAMA2, None, "</s>", ["</s>"], ["[INST]", "[/INST]"], ["</s>"]),
]
ROWS = [{"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "beta"}]},
        {"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "beta"},
                      {"role": "user", "content": "gamma"}, {"role": "assistant", "content": "delta"}]},
        # Answers that do not share a token with a space before them.
        {"messages": [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "42"},
                      {"role": "user", "content": "gamma"}, {"role": "assistant", "content": "\u4e2d"}]}]


def tokenizer_of(eos, ends, others):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(OUT))
    tokenizer.add_special_tokens({"eos_token": eos})
    more = [token for token in dict.fromkeys([*ends, *others]) if token != eos]
    tokenizer.add_special_tokens({"additional_special_tokens": more})
    return tokenizer, more


def axolotl_labels(tokenizer, template, eot_tokens):
    cfg = DictDefault({"train_on_inputs": False, "sequence_len": 2048, "chat_template": "jinja", "chat_template_jinja": template, "eot_tokens": eot_tokens})
    strategy = load_chat_template(tokenizer, cfg, {"type": "chat_template"})
    made = [strategy.tokenize_prompt(json.loads(json.dumps(row))) for row in ROWS]
    return [row["input_ids"] for row in made], [row["labels"] for row in made]


def trl_labels(tokenizer, template):
    fake = types.SimpleNamespace(_tokenizer=tokenizer, chat_template=template, completion_only_loss=False)
    args = SFTConfig(output_dir="unused", assistant_only_loss=True, max_length=None, bf16=False, use_cpu=True, report_to=[])
    made = SFTTrainer._prepare_dataset(fake, Dataset.from_list(ROWS), tokenizer, args, False, None, "train")
    return [list(row["input_ids"]) for row in made], [list(row["labels"]) for row in made]


def shown(tokenizer, ids, labels):
    """The text of a row from its last question's answer on, with targets between brackets."""
    text, inside = "", False
    for token, label in zip(ids, labels):
        if (label != -100) != inside:
            text, inside = text + ("]]" if inside else "[["), not inside
        text += tokenizer.decode([token])
    return text + ("]]" if inside else "")


def main():
    logging.disable(logging.WARNING)
    cases = []
    for name, template, training, eos, ends, others, eot_tokens in FAMILIES:
        tokenizer, more = tokenizer_of(eos, ends, others)
        ids, usual = axolotl_labels(tokenizer, template, None)
        same_ids, with_ends = axolotl_labels(tokenizer, template, eot_tokens)
        assert ids == same_ids
        case = {"name": name, "template": template, "eos_token": eos, "tokens": more, "ends": [tokenizer.convert_tokens_to_ids(e) for e in ends],
                "eot_tokens": eot_tokens, "input_ids": ids, "axolotl": usual, "axolotl_with_eot_tokens": with_ends}
        if training:
            case["trl_template"] = training
            case["trl_input_ids"], case["trl_assistant_only"] = trl_labels(tokenizer, training)
        cases.append(case)
        print(f"== {name}")
        print("  axolotl            ", json.dumps(shown(tokenizer, ids[1], usual[1])))
        print("  axolotl, eot_tokens", json.dumps(shown(tokenizer, ids[1], with_ends[1])), eot_tokens)
        if training:
            print("  TRL                ", json.dumps(shown(tokenizer, case["trl_input_ids"][1], case["trl_assistant_only"][1])))
    rows = [row["messages"] for row in ROWS]
    (OUT / "turn_ends.json").write_text("[\n" + ",\n".join(json.dumps({"rows": rows, **case}, ensure_ascii=False) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
