#!/usr/bin/env python3
"""Writes tests/golden/gguf_quantised: what ggml's quantisers make of values, and llama-quantize of models.

    pip install -r tools/gguf_quantised_requirements.txt
    tools/make_gguf_quantised_goldens.py tests/golden/gguf_quantised

blocks.gguf has a tensor of f32 values and the same in each encoding, by ggml_quantize_chunk without an importance
matrix. mixtures.json has, for models of several sizes, the types that llama.cpp's llama_model_quantize gives their
tensors in a file of type Q4_K_M.
"""

import argparse
import ctypes
import json
import pathlib
import tempfile

import _pywhispercpp
import cyllama.llama.llama_cpp as llama_cpp
import gguf
import numpy as np

Q4_K_M = 15
TYPES = [gguf.GGMLQuantizationType[name] for name in ("Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")]
# architecture, layers, hidden, intermediate, heads, kv_heads, head_dim, tied
MODELS = [
    ("llama", 2, 256, 512, 4, 2, 64, False),
    ("llama", 9, 256, 256, 4, 4, 64, True),
    ("llama", 30, 64, 256, 4, 2, 16, True),
    ("qwen3", 16, 256, 288, 4, 2, 32, True),
    ("qwen2", 7, 96, 128, 2, 1, 48, False),
    ("llama", 80, 256, 256, 4, 2, 64, False),
    ("llama", 80, 256, 256, 4, 4, 64, False),
    ("qwen2", 80, 256, 256, 4, 4, 64, False),
    ("llama", 80, 64, 64, 4, 2, 16, False),
]
VOCABULARY = 64
# architecture, model_type, layers, hidden, intermediate, experts, of which a token uses, width of a shared expert; four
# heads of 64, which share two of keys but in OLMoE
MIXTURES = [
    ("llama", "mixtral", 9, 256, 512, 8, 2, 0),
    ("llama", "mixtral", 5, 256, 288, 4, 2, 0),
    ("qwen2moe", "qwen2_moe", 10, 256, 256, 6, 2, 512),
    ("qwen3moe", "qwen3_moe", 17, 256, 256, 8, 2, 0),
    ("olmoe", "olmoe", 8, 256, 256, 16, 4, 0),
]
# Models in which some layers have a state in place of attention: the layers, and which of them have attention.
LFM2 = (9, {2, 3, 6, 8})
QWEN3_5 = (12, {3, 7, 11})
# One of Phi-3's layers has one matrix of queries, keys and values, and one of gate and up.
FUSED = ("phi3", 16, 256, 512, 4, 2, 64, False)


def ggml():
    # Beside the package's module.
    folder = pathlib.Path(_pywhispercpp.__file__).parent
    return ctypes.CDLL(str(next(folder.glob("libggml-base.so*"))))


def values():
    """Returns numbers of many kinds, in whole blocks of 256."""
    random, n = np.random.default_rng(5), 256
    parts = [random.normal(size=4 * n), random.uniform(-1, 1, size=2 * n) * 0.02, random.standard_t(2, size=4 * n) * 0.05]
    parts += [np.zeros(n), np.full(n, 0.25), np.full(n, -2.5), random.normal(size=n) + 3, random.normal(size=n) * 1e-9]
    parts += [np.where(random.uniform(size=n) < 0.95, 0, random.normal(size=n)), np.linspace(-4, 4, n), -np.abs(random.normal(size=n)), random.integers(-8, 8, size=n) / 8.0]
    # Groups whose scale is nothing beside that of another.
    parts += [np.where(np.arange(n) < 32, 50.0, 1e-3) * random.normal(size=n)]
    return np.concatenate(parts).astype(np.float32)


def write_blocks(path):
    quantise = ggml().ggml_quantize_chunk
    quantise.restype = ctypes.c_size_t
    quantise.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    x = values()
    writer = gguf.GGUFWriter(path, "none")
    writer.add_tensor("values", x.reshape(-1, 256))
    for type_ in TYPES:
        elems, size = gguf.GGML_QUANT_SIZES[type_]
        blocks = np.zeros((x.size // 256, 256 // elems * size), np.uint8)
        assert quantise(type_.value, x.ctypes.data, blocks.ctypes.data, 0, x.size // 256, 256, None) == blocks.size
        writer.add_tensor(type_.name, blocks, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(path, architecture, config, layers, tensors, describe=lambda writer: None, final_norm="output_norm"):
    """`tensors`: the shapes of a layer's weights, by its number."""
    hidden = config["hidden_size"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    if architecture != "lfm2":
        writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCABULARY)
    if architecture != "qwen35":
        writer.add_rope_dimension_count(config["head_dim"])
    describe(writer)
    if experts := config.get("num_experts", config.get("num_local_experts")):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_file_type(0)
    writer.add_tokenizer_model("no_vocab")
    random = np.random.default_rng(0)

    def add(name, *shape):
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))

    add("token_embd.weight", VOCABULARY, hidden)
    for layer in range(layers):
        for name, shape in tensors(layer).items():
            add(f"blk.{layer}.{name}" + ("" if name in ("ssm_a", "ssm_dt.bias") else ".weight"), *shape)
    add(f"{final_norm}.weight", hidden)
    if not config["tie_word_embeddings"]:
        add("output.weight", VOCABULARY, hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def config_of(model_type, layers, hidden, intermediate, heads, kv_heads, head_dim, tied):
    sizes = dict(num_hidden_layers=layers, hidden_size=hidden, intermediate_size=intermediate, num_attention_heads=heads)
    sizes.update(num_key_value_heads=kv_heads, head_dim=head_dim, tie_word_embeddings=tied, vocab_size=VOCABULARY)
    return dict(model_type=model_type, **sizes)


def attention(config):
    hidden, size = config["hidden_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    return {"attn_norm": [hidden], "attn_q": [q, hidden], "attn_k": [kv, hidden], "attn_v": [kv, hidden], "attn_output": [hidden, q]}


def feed_forward(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    return {"ffn_norm": [hidden], "ffn_gate": [inner, hidden], "ffn_up": [inner, hidden], "ffn_down": [hidden, inner]}


def plain_models():
    for architecture, *sizes in MODELS:
        config = config_of(architecture, *sizes)
        yield architecture, config, lambda _, config=config: {**attention(config), **feed_forward(config)}
    architecture, *sizes = FUSED
    config = config_of(architecture, *sizes)
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    width = (config["num_attention_heads"] + 2 * config["num_key_value_heads"]) * size
    layer = {"attn_norm": [hidden], "attn_qkv": [width, hidden], "attn_output": [hidden, hidden], "ffn_norm": [hidden]}
    layer.update({"ffn_up": [2 * inner, hidden], "ffn_down": [hidden, inner]})
    yield architecture, dict(config, pad_token_id=0), lambda _: layer


def mixture_models():
    for architecture, model_type, layers, hidden, inner, experts, used, shared in MIXTURES:
        kv_heads = 4 if model_type == "olmoe" else 2
        config = config_of(model_type, layers, hidden, inner, 4, kv_heads, 64, False)
        key = "num_local_experts" if model_type == "mixtral" else "num_experts"
        config.update({key: experts, "num_experts_per_tok": used, "moe_intermediate_size": inner})
        config["norm_topk_prob"] = model_type == "qwen3_moe"
        if model_type == "qwen2_moe":
            config["shared_expert_intermediate_size"] = shared

        def tensors(_, config=config, inner=inner, hidden=hidden, experts=experts, shared=shared):
            result = {**attention(config), "ffn_norm": [hidden], "ffn_gate_inp": [experts, hidden]}
            result.update({"ffn_gate_exps": [experts, inner, hidden], "ffn_up_exps": [experts, inner, hidden]})
            result["ffn_down_exps"] = [experts, hidden, inner]
            if shared:
                result.update({"ffn_gate_shexp": [shared, hidden], "ffn_up_shexp": [shared, hidden], "ffn_down_shexp": [hidden, shared]})
            return result

        yield architecture, config, tensors


def lfm2_model():
    layers, with_attention = LFM2
    config = config_of("lfm2", layers, 256, 512, 4, 2, 64, True)
    types = ["full_attention" if layer in with_attention else "conv" for layer in range(layers)]
    config.update(layer_types=types, conv_L_cache=3, block_auto_adjust_ff_dim=False)

    def tensors(layer):
        result = {"attn_norm": [256], **feed_forward(config)}
        if layer in with_attention:
            return {**result, **attention(config), "attn_q_norm": [64], "attn_k_norm": [64]}
        return {**result, "shortconv.conv": [256, 3], "shortconv.in_proj": [768, 256], "shortconv.out_proj": [256, 256]}

    def describe(writer):
        writer.add_head_count_kv([2 if layer in with_attention else 0 for layer in range(layers)])
        writer.add_shortconv_l_cache(3)

    return "lfm2", config, tensors, describe, "token_embd_norm"


def qwen3_5_model():
    layers, with_attention = QWEN3_5
    config = config_of("qwen3_5_text", layers, 256, 512, 4, 2, 64, False)
    config.update(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=64, linear_value_head_dim=64)
    norms = {"attn_norm": [256], "post_attention_norm": [256]}
    delta = {"attn_qkv": [512, 256], "attn_gate": [256, 256], "ssm_alpha": [4, 256], "ssm_beta": [4, 256], "ssm_a": [4]}
    delta.update({"ssm_dt.bias": [4], "ssm_conv1d": [512, 4], "ssm_norm": [64], "ssm_out": [256, 256]})

    def tensors(layer):
        mlp = {name: shape for name, shape in feed_forward(config).items() if name != "ffn_norm"}
        if layer not in with_attention:
            return {**norms, **mlp, **delta}
        return {**norms, **mlp, **attention(config), "attn_q": [512, 256], "attn_q_norm": [64], "attn_k_norm": [64]}

    def describe(writer):
        writer.add_ssm_conv_kernel(4)
        writer.add_ssm_state_size(64)
        writer.add_ssm_group_count(2)
        writer.add_ssm_time_step_rank(4)
        writer.add_ssm_inner_size(256)
        writer.add_full_attention_interval(4)
        writer.add_rope_dimension_count(16)
        writer.add_rope_dimension_sections([11, 11, 10, 0])

    return "qwen35", config, tensors, describe


def mixture(folder, architecture, config, tensors, *more):
    plain, quantised = folder / "plain.gguf", folder / "quantised.gguf"
    write_model(plain, architecture, config, config["num_hidden_layers"], tensors, *more)
    parameters = llama_cpp.LlamaModelQuantizeParams()
    parameters.ftype = Q4_K_M
    llama_cpp.model_quantize(str(plain), str(quantised), parameters)
    reader = gguf.GGUFReader(quantised)
    assert reader.fields["general.file_type"].contents() == Q4_K_M
    return {"config": config, "types": {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    write_blocks(out / "blocks.gguf")
    with tempfile.TemporaryDirectory() as folder:
        models = (*plain_models(), *mixture_models(), lfm2_model(), qwen3_5_model())
        mixtures = [mixture(pathlib.Path(folder), *model) for model in models]
    lines = ",\n".join(" " + json.dumps(one) for one in mixtures)
    (out / "mixtures.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
