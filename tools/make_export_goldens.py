"""Writes tests/golden/export/: tiny model folders, and the GGUF files that llama.cpp's converter makes of them.

Run with tools/export_requirements.txt installed, and the sources of llama.cpp unpacked, which that file names:
    python tools/make_export_goldens.py LLAMA_CPP_FOLDER [FOLDER]
NAME/ is the folder, NAME.TYPE.gguf what `convert_hf_to_gguf.py NAME --outtype TYPE` writes; NAME.lora/ is an adapter for
it, and NAME.lora.gguf what `convert_lora_to_gguf.py` makes of that. The converter knows a
byte-level tokenizer by a hash of its ids, which tiny vocabularies do not have; it is told the name in place of that.
"""
import json
import os
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

llama_cpp = pathlib.Path(sys.argv[1]).resolve()
default = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "export"
out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else default
out.mkdir(parents=True, exist_ok=True)

CONVERT = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[1] + "/gguf-py")
from conversion.base import TextModel
name = sys.argv[2]
if name:
    TextModel.get_vocab_base_pre = lambda self, tokenizer: name
script = sys.argv[1] + "/convert_hf_to_gguf.py"
sys.argv = [script] + sys.argv[3:]
runpy.run_path(script, run_name="__main__")
"""
SIZES = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(pre_tokenizer, normalizer=None, **model):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello")]
    tokens = alphabet + [a + b for a, b in pairs]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs, **model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True), AddedToken("<|start|>", special=True)])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False), AddedToken("<|odd|>", special=False)])
    return tokenizer, dict(bos_token="<|start|>", eos_token="<|end|>", pad_token="<|end|>")


def sentencepiece():
    pieces = ["▁", "h", "e", "l", "o", "ll", "he", "hello", "llo", "▁hello"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    merges = [("l", "l"), ("h", "e"), ("he", "llo"), ("ll", "o"), ("▁", "hello")]
    model = models.BPE({t: i for i, t in enumerate(tokens)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")])
    return tokenizer, dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True)


def write(name, model, tokenizer, pre, types):
    folder = out / name
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(i)
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    made, roles = tokenizer
    made.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ messages[0]['content'] }}", **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    for type_ in types:
        file = out / f"{name}.{type_}.gguf"
        command = [sys.executable, "-c", CONVERT, str(llama_cpp), pre, str(folder), "--outfile", str(file)]
        environment = {**os.environ, "NO_LOCAL_GGUF": ""}
        subprocess.run([*command, "--outtype", type_], check=True, env=environment)


def write_adapter(name, shapes):
    folder = out / f"{name}.lora"
    folder.mkdir(exist_ok=True)
    rank, generator, factors = 4, torch.Generator().manual_seed(0), {}
    for layer in range(SIZES["num_hidden_layers"]):
        for module, (rows, columns) in shapes.items():
            path = f"base_model.model.model.layers.{layer}.{module}"
            factors[f"{path}.lora_A.weight"] = torch.randn(rank, columns, generator=generator)
            factors[f"{path}.lora_B.weight"] = torch.randn(rows, rank, generator=generator)
    save_file(factors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    targets = [module.rsplit(".", 1)[-1] for module in shapes]
    settings = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=6, lora_dropout=0.0, bias="none")
    settings.update(target_modules=targets, base_model_name_or_path=name, fan_in_fan_out=False, inference_mode=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    script = [sys.executable, str(llama_cpp / "convert_lora_to_gguf.py"), str(folder), "--base", str(out / name)]
    subprocess.run([*script, "--outfile", str(out / f"{name}.lora.gguf")], check=True)


LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=500000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)
smollm = pre_tokenizers.Sequence(
    [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
)
qwen = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
)
pieces, rows = sentencepiece(), 269
write(
    "llama",
    LlamaForCausalLM(
        LlamaConfig(vocab_size=rows, head_dim=16, rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True, **SIZES)
    ),
    byte_level(smollm),
    "smollm",
    ["q8_0"],
)
write("mistral", MistralForCausalLM(MistralConfig(vocab_size=rows, sliding_window=None, **SIZES)), pieces, "", ["f16"])
write("qwen2", Qwen2ForCausalLM(Qwen2Config(vocab_size=rows, **SIZES)), byte_level(qwen, normalizers.NFC()), "qwen2", ["bf16"])
write(
    "qwen3",
    Qwen3ForCausalLM(Qwen3Config(vocab_size=rows, head_dim=8, tie_word_embeddings=True, **SIZES)),
    byte_level(qwen, normalizers.NFC()),
    "qwen2",
    ["f32", "q8_0"],
)
write_adapter("llama", {"self_attn.q_proj": (64, 32), "self_attn.k_proj": (32, 32), "mlp.down_proj": (32, 48)})
