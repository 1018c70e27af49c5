#!/usr/bin/env python3
"""Writes tests/golden/rows/streams.json: texts and the rows that axolotl 0.18 makes of them for pretraining without
packing, joined or not, or for packing ("windows"), also with a tokenizer that marks both ends of a text; the sequences that
axolotl 0.19 packs of them in one pass over the data ("packed"); and stepwise rows with their tokens and labels.

Needs what make_row_goldens.py needs, numba, and its tokenizer in tests/golden/rows/. Padding is left out: tokens that the
attention mask hides.
"""
import functools
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import unittest.mock

import axolotl.prompt_strategies
import tokenizers
import torch
from axolotl.prompt_strategies import pretrain
from axolotl.prompt_strategies.stepwise_supervised import StepwiseSupervisedPromptTokenizingStrategy
from axolotl.utils.dict import DictDefault
from datasets import IterableDataset
from transformers import PreTrainedTokenizerFast

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "rows"
TEXTS = ["The sky is blue.", "a", "Water boils at a hundred degrees.", "é" * 30, "one two three four five six seven", "b c", "The end."] * 2
STEPWISE = [
    {"prompt": "What is 2 + 3 * 4?", "completions": ["3 * 4 is 12.", " So it is 14."], "labels": [True, True]},
    {"prompt": "p", "completions": ["wrong", "", "right"], "labels": [False, True, False]},
    {"prompt": "", "completions": ["only"], "labels": [1]},
]


def load_encode_streaming():
    """Out of its file alone: the package around it wants all that axolotl trains with."""
    unused = ["axolotl.utils.collators", "axolotl.utils.samplers", "axolotl.utils.trainer"]
    path = pathlib.Path(axolotl.prompt_strategies.__file__).parent.parent / "utils" / "data" / "streaming.py"
    spec = importlib.util.spec_from_file_location("streaming", path)
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.dict(sys.modules, {name: unittest.mock.MagicMock() for name in unused}):
        spec.loader.exec_module(module)
    return module.encode_streaming


class Absent:
    """Stands for packages that axolotl imports for other ends than this one."""

    def find_spec(self, name, path=None, target=None):
        known = name.split(".")[0] in {"art", "bitsandbytes", "deepspeed", "flash_attn", "liger_kernel", "mlflow", "optimum", "posthog", "schedulefree", "torchao", "wandb"}
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


def packed(tokenizer, length, bin_size):
    sys.meta_path.append(Absent())
    from axolotl.utils.data.streaming import wrap_streaming_dataset
    from axolotl.utils.data.wrappers import get_dataset_wrapper
    torch.manual_seed(1)
    texts = sorted(set(TEXTS))
    config = DictDefault({"sample_packing": True, "sequence_len": length, "micro_batch_size": 1, "sample_packing_bin_size": bin_size, "streaming_multipack_buffer_size": 1000,
                          "pretraining_dataset": [{"path": "unused", "type": "pretrain", "text_column": "text"}], "pretrain_multipack_attn": True, "train_on_inputs": False})
    wrapper = functools.partial(get_dataset_wrapper, dataset_config=config.pretraining_dataset[0], tokenizer=tokenizer, cfg=config, dataset_base_type="pretrain", dataset_prompt_style=None)
    sequences = []
    for made in wrap_streaming_dataset(IterableDataset.from_generator(lambda: ({"text": text} for text in texts)), tokenizer, config, wrapper):
        ids, labels = [[int(n) for n in made[name]] for name in ("input_ids", "labels")]
        size = len(ids)
        while labels[size - 1] == -100:  # padding
            size -= 1
        assert labels[:size] == ids[:size]  # every token of every piece is learned
        starts = [i for i, position in enumerate(made["position_ids"][:size]) if position == 0]
        assert len(starts) <= bin_size
        sequences += [ids[begin:end] for begin, end in zip(starts, starts[1:] + [size])]
    return {"sequence_len": length, "bin_size": bin_size, "texts": texts, "sequences": sorted(sequences)}


def visible(made):
    rows = []
    for ids, labels, mask in zip(made["input_ids"], made["labels"], made["attention_mask"]):
        rows.append({"input_ids": [i for i, m in zip(ids, mask) if m], "labels": [n for n, m in zip(labels, mask) if m]})
    return rows


def marking_ends(tokenizer):
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B", special_tokens=[("<s>", 0), ("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<|im_end|>", pad_token="<pad>")


def windows(tokenizer, length):
    strategy = pretrain.load(tokenizer, DictDefault({"train_on_inputs": False, "sequence_len": length, "pretraining_dataset": [{"text_column": "text"}]}))
    made = strategy.tokenize_prompt({"text": TEXTS})
    return [{"input_ids": ids, "labels": ids} for ids in made["input_ids"]]


def main():
    encode_streaming = load_encode_streaming()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(OUT)
    texts = [{"sequence_len": length, "joined": joined, "texts": TEXTS,
              "rows": visible(encode_streaming({"text": TEXTS}, tokenizer, length, concatenate=joined))}
             for length in (16, 24, 64) for joined in (False, True)]
    marked = marking_ends(tokenizer)
    post_processor = json.loads(marked.backend_tokenizer.to_str())["post_processor"]
    for length in (16, 24):
        both = {"sequence_len": length, "texts": TEXTS, "post_processor": post_processor}
        texts += [{**both, "joined": joined, "rows": visible(encode_streaming({"text": TEXTS}, marked, length, concatenate=joined))} for joined in (False, True)]
        texts.append({**both, "windows": True, "rows": windows(marked, length)})
    stepwise = []
    for options in ({}, {"step_separator": "\n\n"}, {"train_on_last_step_only": True}, {"max_completion_length": 5}, {"sequence_len": 12}):
        strategy = StepwiseSupervisedPromptTokenizingStrategy(tokenizer, **options)
        stepwise.append({"options": options, "records": STEPWISE,
                         "rows": [{k: v for k, v in strategy.tokenize_prompt(r).items() if k != "attention_mask"} for r in STEPWISE]})
    (OUT / "streams.json").write_text(json.dumps({"texts": texts, "stepwise": stepwise, "packed": [packed(tokenizer, *sizes) for sizes in ((16, 200), (24, 2), (64, 3))]}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
