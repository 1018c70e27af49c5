"""Writes tests/golden/import/: tiny models as GGUF, and what an import of each must give back.

Run with torch, transformers, safetensors and gguf installed:  python tools/make_import_goldens.py [FOLDER]
NAME.gguf is written by llama.cpp's rules from the transformers model whose weights are NAME.safetensors and whose
settings are NAME.json.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

default = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "import"
out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
out.mkdir(parents=True, exist_ok=True)

SIZES = dict(
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
)
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def interleave(tensor, heads):
    """llama.cpp's order of the rows of a query or key projection."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def byte_level_vocabulary():
    """Specials, 256 byte characters and a few merges."""
    from tokenizers.pre_tokenizers import ByteLevel

    merges = ["h e", "l l", "he ll", "hell o", "Ġ hello"]
    tokens = ["<|end|>", "<|start|>", "<tool>", *sorted(ByteLevel.alphabet())]
    tokens += [merge.replace(" ", "") for merge in merges]
    kinds = [3, 3, 4] + [1] * (len(tokens) - 3)
    return dict(model="gpt2", tokens=tokens, kinds=kinds, merges=merges)


def sentencepiece_vocabulary():
    pieces = ["▁", "h", "e", "l", "o", "ll", "he", "hello", "llo", "▁hello"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    scores = [0.0] * 259 + [-float(i) for i in range(len(pieces))]
    return dict(model="llama", tokens=tokens, kinds=kinds, scores=scores)


def write(name, architecture, model, vocabulary, pre=None, padding=0, **extra):
    config, heads = model.config, {"attn_q": 4, "attn_k": 2}
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(i)
            parameter.copy_(torch.randn(parameter.shape, generator=generator).half())
    state = {key: value.half() for key, value in model.state_dict().items()}
    if config.tie_word_embeddings:
        del state["lm_head.weight"]
    save_file(state, out / f"{name}.safetensors", metadata={"format": "pt"})

    writer = gguf.GGUFWriter(out / f"{name}.gguf", architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    if extra.get("sliding_window"):
        writer.add_sliding_window(extra["sliding_window"])
    writer.add_tokenizer_model(vocabulary["model"])
    if pre:
        writer.add_tokenizer_pre(pre)
    pads = [f"[PAD{i}]" for i in range(padding)]
    writer.add_token_list(vocabulary["tokens"] + pads)
    writer.add_token_types(vocabulary["kinds"] + [5] * padding)
    if "scores" in vocabulary:
        writer.add_token_scores(vocabulary["scores"] + [-1000.0] * padding)
        writer.add_unk_token_id(0)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
    else:
        writer.add_token_merges(vocabulary["merges"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(0)
        writer.add_eot_token_id(2)
        writer.add_pad_token_id(0)
        writer.add_add_bos_token(False)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    if extra.get("rope_freqs"):
        inverse = model.model.rotary_emb.inv_freq.double()
        theta = config.rope_parameters["rope_theta"]
        plain = theta ** -(torch.arange(0, config.head_dim, 2).double() / config.head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / inverse).float().numpy())
    for key, value in state.items():
        array = value.numpy()
        part = gguf_name(key).split(".")[-2]
        if architecture == "llama" and part in heads:
            array = interleave(array, heads[part])
        writer.add_tensor(gguf_name(key), np.ascontiguousarray(array if array.ndim > 1 else array.astype(np.float32)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    keys = ["architectures", "model_type", "vocab_size", "rms_norm_eps", "tie_word_embeddings", *SIZES]
    keys += [key for key in ("attention_bias", "mlp_bias", "sliding_window") if key in extra]
    settings = {**config.to_dict(), "architectures": [type(model).__name__]}
    expected = {key: settings[key] for key in keys}
    expected["rope_theta"] = config.rope_parameters["rope_theta"]
    scaling = {k: v for k, v in config.rope_parameters.items() if k != "rope_theta"}
    expected["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    (out / f"{name}.json").write_text(json.dumps(expected, indent=2) + "\n")


LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=500000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)
pieces, byte_level = sentencepiece_vocabulary(), byte_level_vocabulary()
rows, byte_rows = len(pieces["tokens"]), len(byte_level["tokens"])
write(
    "llama",
    "llama",
    LlamaForCausalLM(
        LlamaConfig(vocab_size=rows, rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5, **SIZES)
    ),
    pieces,
    rope_freqs=True,
    attention_bias=True,
    mlp_bias=True,
)
write(
    "mistral",
    "llama",
    MistralForCausalLM(MistralConfig(vocab_size=rows, sliding_window=16, **SIZES)),
    pieces,
    sliding_window=16,
)
write("qwen2", "qwen2", Qwen2ForCausalLM(Qwen2Config(vocab_size=byte_rows + 5, **SIZES)), byte_level, "qwen2", padding=5)
write(
    "qwen3",
    "qwen3",
    Qwen3ForCausalLM(Qwen3Config(vocab_size=byte_rows, tie_word_embeddings=True, **SIZES)),
    byte_level,
    "smollm",
    attention_bias=False,
)
