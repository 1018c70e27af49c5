#!/usr/bin/env python3
"""Writes a Hugging Face folder with random weights of a named shape, one layer at a time, for benchmarks.

    tools/make_random_model.py qwen2.5-0.5b FOLDER [--config-only] [--tokenizer MODEL_FOLDER]

Needs nothing but Python. Weights are normal with deviation 0.02, rounded to bf16, repeated after some millions of numbers, and
written as they come, so that memory stays small whatever the model's size. The tokenizer files of another folder can be copied along;
without, the tokenizer knows the 256 bytes and an end of text, and names for all other ids.
"""

import argparse
import array
import json
import math
import os
import random
import shutil
import sys

SHAPES = {
    "tiny": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "hidden_size": 64,
             "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
             "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False},
    "smollm2-135m": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 49152, "hidden_size": 576,
                     "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
                     "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                     "rope_theta": 100000.0, "tie_word_embeddings": True},
    "qwen2.5-0.5b": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896,
                     "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                     "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                     "rope_theta": 1000000.0, "tie_word_embeddings": True},
    "qwen2.5-1.5b": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 1536,
                     "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
                     "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                     "rope_theta": 1000000.0, "tie_word_embeddings": True},
    "qwen2.5-7b": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 152064, "hidden_size": 3584,
                   "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
                   "num_key_value_heads": 4, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
                   "rope_theta": 1000000.0, "tie_word_embeddings": False},
    "qwen3-8b": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 4096,
                 "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
                 "rope_theta": 1000000.0, "tie_word_embeddings": False},
    "llama-3-8b": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
                   "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                   "num_key_value_heads": 8, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                   "rope_theta": 500000.0, "tie_word_embeddings": False},
    "llama-3-70b": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 8192,
                    "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
                    "num_key_value_heads": 8, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                    "rope_theta": 500000.0, "tie_word_embeddings": False},
    "llama-2-7b": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 4096,
                   "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
                   "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
                   "rope_theta": 10000.0, "tie_word_embeddings": False},
    # Mixtures: many small experts, and two layers of OLMoE 1B-7B.
    "experts-64": {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 4096, "hidden_size": 512,
                   "intermediate_size": 1024, "moe_intermediate_size": 256, "num_experts": 64, "num_experts_per_tok": 8,
                   "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "num_hidden_layers": 8,
                   "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 4096,
                   "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True},
    "olmoe-2-layers": {"model_type": "olmoe", "architectures": ["OlmoeForCausalLM"], "vocab_size": 50304, "hidden_size": 2048,
                       "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": False,
                       "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 16,
                       "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                       "tie_word_embeddings": False},
}


def mlp_tensors(config):
    hidden = config["hidden_size"]
    if "num_experts" not in config:
        middle = config["intermediate_size"]
        return {"mlp.gate_proj.weight": (middle, hidden), "mlp.up_proj.weight": (middle, hidden),
                "mlp.down_proj.weight": (hidden, middle)}
    middle = config.get("moe_intermediate_size", config["intermediate_size"])
    tensors = {"mlp.gate.weight": (config["num_experts"], hidden)}
    for expert in range(config["num_experts"]):
        prefix = f"mlp.experts.{expert}."
        tensors.update({prefix + "gate_proj.weight": (middle, hidden), prefix + "up_proj.weight": (middle, hidden),
                        prefix + "down_proj.weight": (hidden, middle)})
    return tensors


def layer_tensors(config, layer):
    hidden = config["hidden_size"]
    head_size = config.get("head_dim", hidden // config["num_attention_heads"])
    query_width, key_width = head_size * config["num_attention_heads"], head_size * config["num_key_value_heads"]
    prefix = f"model.layers.{layer}."
    tensors = {
        "self_attn.q_proj.weight": (query_width, hidden), "self_attn.k_proj.weight": (key_width, hidden),
        "self_attn.v_proj.weight": (key_width, hidden), "self_attn.o_proj.weight": (hidden, query_width),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,)} | mlp_tensors(config)
    if config["model_type"] == "qwen2":
        tensors.update({"self_attn.q_proj.bias": (hidden,), "self_attn.k_proj.bias": (key_width,),
                        "self_attn.v_proj.bias": (key_width,)})
    if config["model_type"] in ("qwen3", "qwen3_moe"):
        tensors.update({"self_attn.q_norm.weight": (head_size,), "self_attn.k_norm.weight": (head_size,)})
    if config["model_type"] == "olmoe":
        tensors.update({"self_attn.q_norm.weight": (query_width,), "self_attn.k_norm.weight": (key_width,)})
    return {prefix + name: shape for name, shape in tensors.items()}


def to_bf16(values):
    """The upper halves of f32, rounded to even, little-endian."""
    bits = array.array("I", array.array("f", values).tobytes())
    halves = array.array("H", [(b + 0x7FFF + ((b >> 16) & 1)) >> 16 for b in bits])
    if sys.byteorder == "big":
        halves.byteswap()
    return halves.tobytes()


def write_values(file, numbers, name, shape):
    """Returns the numbers of a tensor: ones for a norm, zeros for a bias, else the random numbers over and over."""
    left = 2 * math.prod(shape)
    if name.endswith(("norm.weight", "bias")):
        numbers = to_bf16([0.0 if name.endswith("bias") else 1.0]) * math.prod(shape)
    while left > 0:
        left -= file.write(numbers[:left])


def write_shard(path, tensors, numbers):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors.items():
            write_values(file, numbers, name, shape)
    return offset


def write_tokenizer(folder, vocabulary):
    """Byte-level BPE of that many ids without merges. The visible letters that stand for bytes are GPT-2's."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = [chr(byte) for byte in visible] + [chr(256 + i) for i in range(len(hidden))]
    end = "<|endoftext|>"
    tokens = letters + [end] + [f"<|unused {number}|>" for number in range(257, vocabulary)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": 256, "content": end, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {token: number for number, token in enumerate(tokens)}, "merges": []}}
    for name, content in (("tokenizer.json", tokenizer),
                          ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder")
    parser.add_argument("--config-only", action="store_true", help="no weights: enough for `spillway plan --machine`")
    parser.add_argument("--tokenizer", help="folder whose tokenizer files are copied")
    args = parser.parse_args()

    config = dict(SHAPES[args.shape], hidden_act="silu", torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2)
    os.makedirs(args.folder)
    with open(os.path.join(args.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    if args.config_only:
        return
    shards = [layer_tensors(config, layer) for layer in range(config["num_hidden_layers"])]
    ends = {"model.embed_tokens.weight": (config["vocab_size"], config["hidden_size"]),
            "model.norm.weight": (config["hidden_size"],)}
    if not config["tie_word_embeddings"]:
        ends["lm_head.weight"] = (config["vocab_size"], config["hidden_size"])
    shards.append(ends)
    # At most a prime count, so that no two rows of a matrix are alike.
    count = min(4_194_301, max(math.prod(shape) for tensors in shards for shape in tensors.values()))
    generator = random.Random(1)
    numbers = to_bf16([generator.gauss(0, 0.02) for _ in range(count)])
    total, places = 0, {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        total += write_shard(os.path.join(args.folder, name), tensors, numbers)
        places.update(dict.fromkeys(tensors, name))
        print(f"{name} ({number} of {len(shards)})", flush=True)
    with open(os.path.join(args.folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": places}, file, indent=1)
    if not args.tokenizer:
        write_tokenizer(args.folder, config["vocab_size"])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if args.tokenizer and os.path.exists(os.path.join(args.tokenizer, name)):
            shutil.copy(os.path.join(args.tokenizer, name), args.folder)


if __name__ == "__main__":
    main()
