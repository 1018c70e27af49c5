#!/usr/bin/env python3
"""Writes tests/golden/rows/: a tiny tokenizer, data rows, and the ids and labels that axolotl 0.19 and TRL 1.16 make of them.

Needs transformers, tokenizers, datasets, trl, and axolotl's sources on PYTHONPATH (of axolotl only the prompt strategies
are used; they import addict, colorama and accelerate besides).
"""
import json
import pathlib
import types

import tokenizers
from axolotl.prompt_strategies import completion, pretrain
from axolotl.prompt_strategies import load as load_strategy
from axolotl.prompt_strategies.chat_template import load as load_chat_template
from axolotl.prompt_tokenizers import (AlpacaMultipleChoicePromptTokenizingStrategy, AlpacaPromptTokenizingStrategy, AlpacaReflectionPTStrategy,
                                       GPTeacherPromptTokenizingStrategy, JeopardyPromptTokenizingStrategy, OpenAssistantPromptTokenizingStrategy,
                                       SummarizeTLDRPromptTokenizingStrategy)
from axolotl.prompters import (AlpacaPrompter, GPTeacherPrompter, JeopardyPrompter, MultipleChoiceConcisePrompter, MultipleChoiceExplainPrompter,
                               ReflectAlpacaPrompter, SummarizeTLDRPrompter)
from axolotl.utils.dict import DictDefault
from datasets import Dataset
from transformers import PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "rows"

CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
MARKED = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}{% if message['role'] == 'assistant' %}"
          "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
          "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
# Ends turns with another token than the conversation.
TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}</s>{% if loop.last %}<|im_end|>{% endif %}\n{% endfor %}"
# Reads variables beside its own, and one of its own that they may replace.
WITH_VARIABLES = ("{{ greeting | default('') }}{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and enable_thinking is defined and not enable_thinking %}"
                  "<think></think>{% endif %}{{ m.content }}<|im_end|>{{ shape.end if shape is defined else '\n' }}{% endfor %}")
# Drops the thinking of all turns but the last, so that where a turn lies depends on those behind it.
FORGETFUL = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
             "{{ m.content | trim }}<|im_end|>\n{% endfor %}")

CORPUS = """Below is an instruction that describes a task, paired with an input that provides further context. Write a response that
appropriately completes the request. user assistant system The quick brown fox jumps over the lazy dog. What is the capital of
France? Paris is the capital of France. 1 2 3 4 5 6 7 8 9 0 Hello there, how are you today? I am fine, thank you.
""" * 4


def make_tokenizer():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    tokenizer.post_processor = tokenizers.processors.Sequence([
        tokenizers.processors.ByteLevel(trim_offsets=False),
        tokenizers.processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])])
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(OUT / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<pad>", "chat_template": CHATML,
              "clean_up_tokenization_spaces": False, "model_max_length": 1000000}
    (OUT / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return PreTrainedTokenizerFast.from_pretrained(str(OUT))


ALPACA = [{"instruction": "Name the capital of France.", "input": "", "output": "Paris"},
          {"instruction": "Add these.", "input": "1, 2, 3", "output": "6 é🙂\n"},
          {"instruction": "Without input", "output": "ok"},
          {"instruction": "Empty answer", "input": "x", "output": ""}]
TEXTS = [{"text": "Hello there"}, {"text": ""}, {"text": "The quick brown fox jumps over the lazy dog. " * 12}, {"text": "ends<|im_end|>"}]
CHATS = [
    {"messages": [{"role": "user", "content": "What is 1+1?"}, {"role": "assistant", "content": "2"}]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b c"},
                  {"role": "user", "content": "d"}, {"role": "assistant", "content": "[[dummy e\nf é🙂 z"}]},
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "\n\nx "}]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "z", "reasoning_content": "hm"}, {"role": "user", "content": "q"},
                  {"role": "assistant", "content": "same same", "reasoning_content": "same"}]},
    {"messages": [{"role": "user", "content": "last is not trained"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "bye"}]},
    {"messages": [{"role": "user", "content": "flags"}, {"role": "assistant", "content": "no", "train": False}, {"role": "user", "content": "yes", "train": True}]},
    {"system": "From a column", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": " two"}]}]},
]
DETAILED = [
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer is 42, é🙂 so.",
                   "detail": [{"begin_offset": 0, "end_offset": 9, "train": False}, {"begin_offset": 11, "end_offset": 20, "train": True}]},
                  {"role": "user", "content": "learned", "detail": [{"begin_offset": 2, "end_offset": 3, "train": True}]}, {"role": "assistant", "content": "no", "detail": []}]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "text", "text": "Let me think...", "train": False},
                                                                                     {"type": "text", "text": " The answer is 4.", "weight": 1}, {"type": "text", "text": " Thank you"}]}]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "fine, thank you", "reasoning_content": [{"text": "hm hm", "train": False}, {"text": " how are you"}]}]},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"text": "The quick", "weight": 0}, {"text": " brown fox", "weight": 1.0}], "reasoning_content": "the lazy dog"}]}]
THINKING = [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think> hm\nhm </think>\n\n the answer"}]},
            {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "<|begin_of_thought|>x<|end_of_thought|> <|begin_of_solution|> y <|end_of_solution|>"}]},
            {"messages": [{"role": "user", "content": "<think>not mine</think>"}, {"role": "assistant", "content": "no tags"}]}]
SHARED = [{"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}, {"from": "tool", "value": "t"}, {"from": "gpt", "value": "bye"}]}]
# A row with the columns of every instruction type; the second has an input.
ANY = [{"question": "q", "answer": "a", "message_1": "m", "message_2": "n", "instruction": "i", "output": "o", "system": "s", "response": "r", "system_prompt": "",
        "article": "The fox.", "unanswerable_question": "Why?", "context": "c", "revision": "v", "prompt": "p", "generation": "", "choices": ["one", "two é"],
        "explanation": "because", "category": "dogs", "INSTRUCTION": "I", "RESPONSE": "R", "summary": "t", "reflection": "hm", "corrected": "k"},
       {"question": "q {x}", "answer": "Paris", "message_1": "{}", "message_2": "n", "instruction": "i {input}", "input": "j", "output": "o", "system": "", "response": "r<|im_end|>",
        "system_prompt": "Be brief.", "article": "a\nb", "unanswerable_question": "?", "context": "c", "revision": "v", "prompt": "p\n", "generation": "g<|im_end|>",
        "choices": [], "solution": "two", "explanation": "because", "category": "", "INSTRUCTION": "I", "RESPONSE": "R", "summary": "t", "reflection": "", "corrected": "k"}]
# Columns of variables are TRL's.
OWN_VARIABLES = [{"messages": CHATS[0]["messages"], "chat_template_kwargs": {"greeting": "Hi!", "enable_thinking": False}},
                 {"messages": CHATS[4]["messages"], "chat_template_kwargs": {"greeting": "Good day", "enable_thinking": True}}]
MASKED = [{"input_ids": [5, 6, 7, 8], "completion_mask": [0, 0, 1, 1]}, {"input_ids": [9, 10, 11], "completion_mask": [0, 1, 0]}]
BOTH_MASKED = [{"input_ids": [5, 6, 7, 8], "completion_mask": [0, 1, 1, 0], "assistant_masks": [0, 0, 1, 1]}]
OWN_LABELS = [{"input_ids": [5, 6, 7, 8], "completion_mask": [0, 0, 1, 1], "labels": [5, 6, -100, 8]}]
PYGMALION = [{"conversations": [{"role": "system", "value": " A fox.\n<START>"}, {"role": "human", "value": "hi "}, {"role": "bot", "value": "\u00a0hello\n"}]}]
SEGMENTS = [{"segments": [{"text": "What is ", "label": False}, {"text": "the capital?<|im_end|>", "label": True}, {"text": "", "label": True}]}]
OWN_PROMPTS = [{"format": "[{instruction}|{input}] {{x}}", "no_input_format": "[{instruction}]"}, {"field_instruction": "question", "field_output": "answer", "field_input": "article"},
               {"system_prompt": "Be kind.", "system_format": "<<{system}>>\n", "field_system": "nosuch"}, {"field_output": "nosuch"}]
PAIRS = [{"prompt": "What is the capital?", "completion": " Paris"}, {"prompt": "1 2", "completion": "3 4<|im_end|>"}, {"prompt": "", "completion": "x y"}]
CHAT_PAIRS = [{"prompt": [{"role": "user", "content": "hi"}], "completion": [{"role": "assistant", "content": "hello you"}]}]


def row(ids, labels):
    # The first label is never a target, whatever a library says of it.
    return [list(ids), [-100] + list(labels)[1:]]


def axolotl_case(name, rows, strategy, config=None, options=None):
    out = []
    for r in rows:
        if strategy.__class__.__name__ == "CompletionPromptTokenizingStrategy":
            made = strategy.tokenize_prompt({k: [v] for k, v in r.items()})
            out.append([row(i, l) for i, l in zip(made.get("input_ids", []), made.get("labels", made.get("input_ids", [])))])
        elif strategy.__class__.__name__ == "PretrainTokenizationStrategy":
            out.append([row(i, i) for i in strategy.tokenize_prompt(r)["input_ids"]])
        else:
            made = strategy.tokenize_prompt(json.loads(json.dumps(r)))
            out.append([row(made["input_ids"], made.get("labels", made["input_ids"]))])
    return {"name": name, "rows": rows, "config": config or {}, "options": options or {}, "made": out}


def axolotl_cases(tokenizer):
    cases = []
    for inputs in (False, True):
        options = {"train_on_inputs": inputs, "sequence_len": 64}
        for style in ("instruct", "chat", "chatml", "phi"):
            strategy = AlpacaPromptTokenizingStrategy(AlpacaPrompter(style), tokenizer, inputs, 2048)
            cases.append(axolotl_case(f"alpaca {style}", ALPACA, strategy, {"type": f"alpaca:{style}"}, options))
    cfg = DictDefault({"train_on_inputs": False, "sequence_len": 64})
    wide = DictDefault({"train_on_inputs": False, "sequence_len": 2048})
    for kind in ("alpaca_chat", "alpaca_chat.load_qa", "alpaca_chat.load_concise", "alpaca_chat.load_camel_ai", "alpaca_chat.load_no_prompt", "alpaca_instruct",
                 "alpaca_instruct.load_no_prompt", "alpaca_w_system", "alpaca_w_system.load_instruct", "alpaca_w_system.load_chat", "alpaca_w_system.load_open_orca",
                 "alpaca_w_system.load_open_orca_chatml", "orcamini", "context_qa", "context_qa.load_v2", "context_qa.load_404", "creative_acr.load_answer", "metharme"):
        cases.append(axolotl_case(kind, ANY, load_strategy(kind, tokenizer, wide, {}), {"type": kind}, {"sequence_len": 2048}))
    handlers = {"explainchoice": (AlpacaMultipleChoicePromptTokenizingStrategy, MultipleChoiceExplainPrompter),
                "concisechoice": (AlpacaMultipleChoicePromptTokenizingStrategy, MultipleChoiceConcisePrompter),
                "summarizetldr": (SummarizeTLDRPromptTokenizingStrategy, SummarizeTLDRPrompter), "jeopardy": (JeopardyPromptTokenizingStrategy, JeopardyPrompter),
                "oasst": (OpenAssistantPromptTokenizingStrategy, AlpacaPrompter), "gpteacher": (GPTeacherPromptTokenizingStrategy, GPTeacherPrompter)}
    for kind, (strategy, prompter) in handlers.items():
        for style in ("", ":chat"):
            cases.append(axolotl_case(kind + style, ANY, strategy(prompter(style[1:] or None), tokenizer, False, 2048), {"type": kind + style}, {"sequence_len": 2048}))
    for style in ("instruct", "chat"):
        for length in (2048, 40):
            strategy = AlpacaReflectionPTStrategy(ReflectAlpacaPrompter(style), tokenizer, False, length)
            cases.append(axolotl_case(f"reflection {style} {length}", ANY, strategy, {"type": f"reflection:{style}"}, {"sequence_len": length}))
    cases.append(axolotl_case("reflection", ANY, AlpacaReflectionPTStrategy(ReflectAlpacaPrompter(None), tokenizer, False, 2048), {"type": "reflection"}, {"sequence_len": 2048}))
    cases.append(axolotl_case("pygmalion", PYGMALION, load_strategy("pygmalion", tokenizer, wide, {}), {"type": "pygmalion"}))
    cases.append(axolotl_case("segments", SEGMENTS, load_strategy("input_output", tokenizer, wide, {}), {"type": "input_output"}))
    for own in OWN_PROMPTS:
        cases.append(axolotl_case(f"own {own}", ANY, load_strategy("user_defined", tokenizer, wide, own), {"properties": own}))
    windows = DictDefault({"train_on_inputs": False, "sequence_len": 40, "pretraining_dataset": [{"text_column": "text"}]})
    cases.append(axolotl_case("pretrain", TEXTS, pretrain.load(tokenizer, windows), {"type": "pretrain"}, {"sequence_len": 40}))
    cases.append(axolotl_case("completion", TEXTS, completion.load(tokenizer, cfg), {"type": "completion"}, {"sequence_len": 64}))
    variants = [{}, {"train_on_eos": "all"}, {"train_on_eos": "last"}, {"train_on_eos": "none"}, {"roles_to_train": ["assistant", "user"]},
                {"message_field_training": "train"}, {"drop_system_message": True}]
    for variant in variants:
        for template_name, template in (("chatml", CHATML), ("forgetful", FORGETFUL)):
            chat_cfg = DictDefault({"train_on_inputs": False, "sequence_len": 2048, "chat_template": "jinja", "chat_template_jinja": template})
            strategy = load_chat_template(tokenizer, chat_cfg, {"type": "chat_template", **variant})
            cases.append(axolotl_case(f"chat {template_name} {variant}", CHATS, strategy, {"type": "chat_template", "chat_template_jinja": template, **variant},
                                      {"sequence_len": 64}))
    def chat(name, rows, template, config, **more):
        chat_cfg = DictDefault({"train_on_inputs": False, "sequence_len": 2048, "chat_template": "jinja", "chat_template_jinja": template, **more})
        full = {"type": "chat_template", "chat_template_jinja": template, **config}
        cases.append(axolotl_case(f"{name} {config} {more}", rows, load_chat_template(tokenizer, chat_cfg, {k: v for k, v in full.items() if k != "chat_template_jinja"}), full, more))

    for template in (CHATML, FORGETFUL):
        chat("detail", DETAILED, template, {"message_field_training_detail": "detail"})
        chat("thinking", THINKING, template, {"split_thinking": True})
    for eot in ("all", "turn", "last", "none"):
        for eos in ("turn", "none"):
            chat("turns", CHATS[:3], TURNS, {"train_on_eot": eot, "train_on_eos": eos}, eot_tokens=["</s>"])
    for kwargs in ({}, {"greeting": "Hello", "enable_thinking": False}, {"bos_token": "?", "shape": {"end": " -- "}}):
        chat("variables", CHATS[:3] + OWN_VARIABLES, WITH_VARIABLES, {}, chat_template_kwargs=kwargs)
    shared = {"type": "chat_template", "field_messages": "conversations", "message_property_mappings": {"role": "from", "content": "value"}}
    cases.append(axolotl_case("shared", SHARED, load_chat_template(tokenizer, DictDefault({"sequence_len": 2048, "chat_template": "jinja", "chat_template_jinja": CHATML}), shared), shared))
    cases.append({**cases[-1], "name": "sharegpt", "config": {"type": "sharegpt", "chat_template_jinja": CHATML}})
    inputs_cfg = DictDefault({"train_on_inputs": True, "sequence_len": 2048, "chat_template": "jinja", "chat_template_jinja": CHATML})
    cases.append(axolotl_case("chat on inputs", CHATS, load_chat_template(tokenizer, inputs_cfg, {"type": "chat_template"}), {"type": "chat_template"}, {"train_on_inputs": True}))
    return cases


def trl_case(tokenizer, name, rows, template=CHATML, completion_only=None, assistant_only=False, max_length=None):
    fake = types.SimpleNamespace(_tokenizer=tokenizer, chat_template=template,
                                 completion_only_loss="prompt" in rows[0] if completion_only is None else completion_only)
    args = SFTConfig(output_dir="unused", assistant_only_loss=assistant_only, max_length=max_length, bf16=False, use_cpu=True, report_to=[])
    made = SFTTrainer._prepare_dataset(fake, Dataset.from_list(rows), tokenizer, args, False, None, "train")
    options = {"assistant_only_loss": assistant_only, "length_rules": "trl"}
    if completion_only is not None:
        options["completion_only_loss"] = completion_only
    if max_length is not None:
        options["sequence_len"] = max_length
    return {"name": f"trl {name}", "rows": rows, "config": {"chat_template_jinja": template}, "options": options,
            "all": [row(m["input_ids"], m["labels"]) for m in made]}


def trl_cases(tokenizer):
    plain = [c for c in CHATS if all(set(m) == {"role", "content"} and isinstance(m["content"], str) for m in c["messages"]) and "system" not in c]
    texts = [t for t in TEXTS if t["text"]]
    return [trl_case(tokenizer, "text", texts), trl_case(tokenizer, "text cut", texts, max_length=16), trl_case(tokenizer, "pairs", PAIRS),
            trl_case(tokenizer, "pairs, all learned", PAIRS, completion_only=False), trl_case(tokenizer, "pairs cut", PAIRS, max_length=6),
            trl_case(tokenizer, "chat", plain), trl_case(tokenizer, "chat, assistant only", plain[:2], template=MARKED, assistant_only=True),
            trl_case(tokenizer, "chat pairs", CHAT_PAIRS), trl_case(tokenizer, "variables", OWN_VARIABLES, template=WITH_VARIABLES),
            trl_case(tokenizer, "masked", MASKED), trl_case(tokenizer, "masked, completions only", MASKED, completion_only=True),
            trl_case(tokenizer, "two masks", BOTH_MASKED), trl_case(tokenizer, "two masks, completions only", BOTH_MASKED, completion_only=True),
            trl_case(tokenizer, "masked with labels", OWN_LABELS, completion_only=True)]


def main():
    tokenizer = make_tokenizer()
    cases = axolotl_cases(tokenizer) + trl_cases(tokenizer)
    (OUT / "rows.json").write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
