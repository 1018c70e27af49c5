"""Writes tests/golden/export/families.json: what llama.cpp's converter makes of a tiny model of each family.

Run with tools/export_requirements.txt installed, and the sources of llama.cpp unpacked, which that file names:
    python tools/make_gguf_family_goldens.py LLAMA_CPP_FOLDER [FILE [FAMILY ...]]
Families that are named are made again, the others stay.
A family has the `config` as transformers saves it, the shapes of its `weights`, the `metadata` and, of each tensor, its
shape, its encoding and the checksum (XXH3) of its bytes in each type of file, and the encoding that llama-quantize gives
it in a Q4_K_M file made of the f32 one. The weights follow from their names
(`values_of`), so that no file holds them; src/model/gguf/families_test.cc computes the same ones. The tokenizer is left
out: tools/make_export_goldens.py has those. Some have a LoRA adapter, converted in f32.
"""
import json
import pathlib
import runpy
import sys
import tempfile
import unittest.mock

import numpy as np
import torch
import transformers
import xxhash
from safetensors import safe_open
from safetensors.torch import save_file

llama_cpp = pathlib.Path(sys.argv[1]).resolve()
default = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "export" / "families.json"
out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else default
sys.path.insert(0, str(llama_cpp))
sys.path.insert(0, str(llama_cpp / "gguf-py"))
import conversion  # noqa: E402
import cyllama.llama.llama_cpp as quantiser  # noqa: E402
import gguf  # noqa: E402
from conversion.base import ModelBase, ModelType, TextModel  # noqa: E402
from conversion.llama import LlamaModel  # noqa: E402
from gguf.scripts.gguf_new_metadata import MetadataDetails, copy_with_new_metadata  # noqa: E402

SIZES = dict(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
YARN = dict(rope_type="yarn", rope_theta=20000.0, factor=4.0, original_max_position_embeddings=16)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=500000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
LONGROPE = dict(
    rope_type="longrope",
    rope_theta=10000.0,
    original_max_position_embeddings=16,
    partial_rotary_factor=0.75,
    short_factor=[1.0, 1.1, 1.5],
    long_factor=[1.0, 2.0, 5.0],
)
MINISTRAL3 = {
    **YARN,
    **dict(beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.25),
}
GPT_OSS_YARN = {**YARN, **dict(rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False)}
LOCAL = dict(
    full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
    sliding_attention=dict(rope_type="default", rope_theta=10000.0),
)
OLMO3 = dict(full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=20000.0))
# Rows of an expert's down_proj are no multiple of 32.
QWEN_MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
DELTA = dict(
    num_hidden_layers=4,
    head_dim=16,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    rope_parameters=dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.25),
)
EXPERTS = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1)
QWEN3_5 = {**DELTA, "rope_parameters": {**DELTA["rope_parameters"], "mrope_section": [1, 1, 0]}}
LATENT = dict(
    **EXPERTS,
    num_key_value_heads=4,
    kv_lora_rank=16,
    qk_nope_head_dim=8,
    qk_rope_head_dim=4,
    v_head_dim=6,
)
GROUPS = dict(n_group=2, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True)
DEEPSEEK_YARN = {**YARN, **dict(beta_fast=32.0, beta_slow=1.0, mscale=0.7, mscale_all_dim=0.7)}
LFM2 = dict(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], tie_word_embeddings=True)
# The width of all heads is that of mamba_expand x hidden_size.
GRANITE = dict(attention_multiplier=0.25, embedding_multiplier=3.0, residual_multiplier=0.75, logits_scaling=1.5)
SPACE = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_d_conv=4, mamba_n_groups=2, mamba_expand=2)
GRANITE4 = dict(**GRANITE, **SPACE, num_hidden_layers=3, shared_intermediate_size=64, layer_types=["mamba", "attention", "mamba"])
NEMOTRON_H = dict(
    mamba_num_heads=4,
    mamba_head_dim=16,
    ssm_state_size=8,
    n_groups=2,
    conv_kernel=4,
    head_dim=16,
    layer_norm_epsilon=1e-5,
)
FALCON_H1 = dict(
    head_dim=8,
    mamba_d_ssm=64,
    **SPACE,
    embedding_multiplier=2.0,
    lm_head_multiplier=0.5,
    key_multiplier=0.75,
    attention_in_multiplier=1.25,
    attention_out_multiplier=0.5,
    ssm_in_multiplier=1.5,
    ssm_out_multiplier=0.25,
    ssm_multipliers=[0.5, 1.5, 0.75, 1.25, 2.0],
    mlp_multipliers=[0.5, 1.5],
    projectors_bias=False,
)
GEMMA4 = dict(
    num_hidden_layers=3,
    head_dim=16,
    num_key_value_heads=2,
    layer_types=["sliding_attention", "sliding_attention", "full_attention"],
    sliding_window=8,
    hidden_size_per_layer_input=0,
    final_logit_softcapping=30.0,
    tie_word_embeddings=True,
)
AFMOE = dict(
    num_hidden_layers=5,
    head_dim=16,
    num_dense_layers=1,
    num_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=24,
    num_shared_experts=2,
    route_scale=2.5,
    sliding_window=8,
)
GEMMA4_E2B = {
    **GEMMA4,
    **dict(num_hidden_layers=6, layer_types=GEMMA4["layer_types"] * 2, num_kv_shared_layers=3, use_double_wide_mlp=True),
    **dict(hidden_size_per_layer_input=16, vocab_size_per_layer_input=96, global_head_dim=32),
}
BAMBA = dict(**{**SPACE, "mamba_n_groups": 2}, num_hidden_layers=3, attn_layer_indices=[1])
MISTRAL4_YARN = {**YARN, **dict(beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.25)}
GEMMA4_HEADS = dict(global_head_dim=32, num_global_key_value_heads=1)
QWEN3_5_VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=32, num_position_embeddings=4)
SIGLIP = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)


def plain(rope_theta):
    return dict(rope_type="default", rope_theta=rope_theta)


# Name of the case: the class of transformers, and its config beside SIZES.
CASES = {
    "llama": ("Llama", dict(rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True, head_dim=16)),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "qwen2": ("Qwen2", dict(rope_parameters=YARN)),
    "qwen3": ("Qwen3", dict(head_dim=8, tie_word_embeddings=True)),
    "gemma": ("Gemma", dict(head_dim=16, num_key_value_heads=1)),
    "gemma2": ("Gemma2", dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=8)),
    "gemma3": ("Gemma3", dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=8, num_hidden_layers=7, rope_parameters=LOCAL)),
    "phi3": ("Phi3", dict(sliding_window=8, original_max_position_embeddings=64)),
    "phi4": ("Phi3", dict(rope_parameters=LONGROPE, original_max_position_embeddings=16, tie_word_embeddings=True)),
    "glm4": ("Glm4", dict(head_dim=16, attention_bias=True)),
    "granite": (
        "Granite",
        dict(attention_multiplier=0.25, embedding_multiplier=3.0, residual_multiplier=0.75, logits_scaling=1.5, rope_parameters=plain(5e5)),
    ),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=5)),
    "olmo2": ("Olmo2", dict()),
    "olmo3": ("Olmo3", dict(num_hidden_layers=5, sliding_window=8, rope_parameters=OLMO3)),
    "ministral3": ("Ministral3", dict(head_dim=16, rope_parameters=MINISTRAL3)),
    "arcee": ("Arcee", dict(head_dim=8)),
    "seed_oss": ("SeedOss", dict(head_dim=16, attention_dropout=0.0, residual_dropout=0.0)),
    "cohere": ("Cohere", dict(logit_scale=0.5)),
    "cohere2": ("Cohere2", dict(logit_scale=0.5, num_hidden_layers=5, sliding_window=8)),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": ("Qwen2Moe", dict(**QWEN_MOE, shared_expert_intermediate_size=96, norm_topk_prob=False)),
    "qwen3_moe": ("Qwen3Moe", dict(**QWEN_MOE, norm_topk_prob=True, head_dim=16, rope_parameters=YARN)),
    "olmoe": ("Olmoe", dict(num_experts=4, num_experts_per_tok=2, num_key_value_heads=4)),
    "qwen3_5": ("Qwen3_5", dict(**QWEN3_5, tie_word_embeddings=True)),
    "qwen3_5_moe": ("Qwen3_5Moe", dict(**QWEN3_5, **QWEN_MOE, shared_expert_intermediate_size=32)),
    "qwen3_next": ("Qwen3Next", dict(**DELTA, **QWEN_MOE, shared_expert_intermediate_size=32)),
    "lfm2": ("Lfm2", dict(**LFM2, block_ff_dim=96, block_multiple_of=16)),
    "lfm2_moe": ("Lfm2Moe", dict(**LFM2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, num_dense_layers=1)),
    "gpt_oss": ("GptOss", dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, rope_parameters=GPT_OSS_YARN)),
    "glm4_moe": ("Glm4Moe", dict(**EXPERTS, **GROUPS, head_dim=16, attention_bias=True, use_qk_norm=True)),
    "glm4_moe_lite": ("Glm4MoeLite", dict(**{**LATENT, **GROUPS}, q_lora_rank=12)),
    "deepseek_v2": ("DeepseekV2", dict(**LATENT, q_lora_rank=12, n_shared_experts=2)),
    "deepseek_v3": ("DeepseekV3", dict(**{**LATENT, **GROUPS}, q_lora_rank=12, rope_parameters=DEEPSEEK_YARN)),
    "granitemoe": (
        "GraniteMoe",
        dict(
            attention_multiplier=0.25,
            embedding_multiplier=3.0,
            residual_multiplier=0.75,
            logits_scaling=1.5,
            num_local_experts=4,
            num_experts_per_tok=2,
        ),
    ),
    "granite4": ("GraniteMoeHybrid", dict(**GRANITE4, num_local_experts=0, num_experts_per_tok=0, tie_word_embeddings=True)),
    "granite4_moe": ("GraniteMoeHybrid", dict(**GRANITE4, num_local_experts=4, num_experts_per_tok=2)),
    "granite4_attention": (
        "GraniteMoeHybrid",
        dict(
            **{**GRANITE4, "layer_types": ["attention"] * 3},
            num_local_experts=0,
            num_experts_per_tok=0,
            position_embedding_type="rope",
        ),
    ),
    "bamba": ("Bamba", dict(**BAMBA, rope_parameters=plain(10000.0))),
    "falcon_h1": ("FalconH1", dict(**FALCON_H1)),
    "falcon_h1_norm": ("FalconH1", dict(**FALCON_H1, mamba_rms_norm=True, mamba_norm_before_gate=False)),
    "nemotron_h": ("NemotronH", dict(**NEMOTRON_H, num_hidden_layers=3, layers_block_type=["mamba", "attention", "mlp"])),
    "nemotron_h_moe": (
        "NemotronH",
        dict(
            **NEMOTRON_H,
            layers_block_type=["mamba", "moe", "attention", "moe"],
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=24,
            moe_shared_expert_intermediate_size=48,
            n_shared_experts=1,
            n_group=1,
            topk_group=1,
            norm_topk_prob=True,
            routed_scaling_factor=2.5,
            moe_latent_size=16,
        ),
    ),
    "jamba": (
        "Jamba",
        dict(
            num_hidden_layers=5,
            num_experts=4,
            num_experts_per_tok=2,
            attn_layer_period=3,
            attn_layer_offset=1,
            expert_layer_period=2,
            expert_layer_offset=1,
            mamba_d_state=8,
            mamba_dt_rank=4,
        ),
    ),
    "minimax_m2": ("MiniMaxM2", dict(head_dim=16, rotary_dim=8, num_local_experts=4, num_experts_per_tok=2)),
    "afmoe": ("Afmoe", dict(**AFMOE, mup_enabled=True)),
    "apertus": ("Apertus", dict(attention_bias=True, rope_parameters={**LLAMA3, "original_max_position_embeddings": 8192})),
    "nemotron": ("Nemotron", dict(attention_bias=True, mlp_bias=True, norm_eps=1e-5)),
    "hunyuan_v1_dense": ("HunYuanDenseV1", dict(head_dim=16, tie_word_embeddings=True)),
    "gemma4": ("Gemma4", dict(**GEMMA4, **GEMMA4_HEADS, attention_k_eq_v=True)),
    "gemma4_moe": ("Gemma4", dict(**GEMMA4, **GEMMA4_HEADS, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=24)),
    "gemma4_e2b": ("Gemma4", dict(**GEMMA4_E2B)),
}
# Beside config.json as transformers writes it: what the published files have and the converter asks for.
PUBLISHED = {
    "afmoe": dict(score_func="sigmoid", route_norm=True),
    "bamba": dict(attn_rotary_emb=4, layer_types=None),
    "cohere2": dict(rotary_pct=1.0),
    "granite4": dict(layer_types=["mamba", "attention", "mamba"]),
    "granite4_moe": dict(layer_types=["mamba", "attention", "mamba"]),
    "granite4_attention": dict(layer_types=["attention"] * 3),
    "nemotron_h": dict(
        layer_types=None,
        num_experts_per_tok=None,
        n_routed_experts=None,
        n_group=None,
        topk_group=None,
        hybrid_override_pattern="M*-",
    ),
    "nemotron_h_moe": dict(layer_types=None, hybrid_override_pattern="ME*E"),
    "qwen3_5_moe": dict(intermediate_size=None),
    "qwen3_next": dict(full_attention_interval=4),
    "deepseek_v2": dict(scoring_func="softmax", n_group=1, topk_group=1),
    "deepseek_v3": dict(scoring_func="sigmoid"),
    "glm4_moe_lite": dict(scoring_func="sigmoid"),
    "minimax_m2": dict(scoring_func="sigmoid"),
}
# Families whose published configs leave out numbers that transformers would fill in, and the converter goes by them.
RAW = ["nemotron_h"]
STACKED = ["qwen3_5_moe"]  # families whose published files have all experts of a layer in two tensors
# The modules of an adapter.
ADAPTERS = {
    "phi3": ["self_attn.qkv_proj", "mlp.gate_up_proj"],
    "glm4": ["self_attn.k_proj", "mlp.gate_up_proj"],
    "granite": ["self_attn.q_proj", "self_attn.k_proj"],
    "gemma3": ["self_attn.q_proj", "mlp.down_proj"],
    "qwen3_5": ["self_attn.q_proj", "linear_attn.in_proj_qkv", "linear_attn.in_proj_a", "linear_attn.out_proj"],
    "lfm2": ["conv.in_proj", "conv.out_proj", "feed_forward.w1"],
    "gpt_oss": ["self_attn.k_proj", "self_attn.o_proj"],
    "afmoe": ["self_attn.q_proj", "self_attn.gate_proj", "mlp.shared_experts.up_proj"],
}
# The modules in the files that each tensor of all experts of a layer stands for, which transformers 5 has in their place (PEFT's
# target_parameters); "files" is the module of all of them.
EXPERT_ADAPTERS = {
    "mixtral": dict(files="block_sparse_moe.experts", gate_up_proj=["w1", "w3"], down_proj=["w2"]),
    "qwen3_moe": dict(files="mlp.experts", gate_up_proj=["gate_proj", "up_proj"], down_proj=["down_proj"]),
    "glm4_moe": dict(files="mlp.experts", gate_up_proj=["gate_proj", "up_proj"], down_proj=["down_proj"]),
}


def wrapper(text, of_text, **beside):
    """The text model `text`_Config in a class that reads images."""
    inner = getattr(transformers, f"{text}Config")(**{**SIZES, **of_text})
    return dict(text_config=inner.to_dict(), image_token_index=95, **beside)


def models():
    for name, (kind, settings) in CASES.items():
        config = {**SIZES, **settings}
        text = f"{kind}Text" if hasattr(transformers, f"{kind}TextConfig") else kind
        yield name, getattr(transformers, f"{kind}ForCausalLM"), getattr(transformers, f"{text}Config")(**config)
    gemma3 = wrapper("Gemma3Text", CASES["gemma3"][1], vision_config={**SIGLIP, "model_type": "siglip_vision_model"})
    gemma3.update(mm_tokens_per_image=4, boi_token_index=93, eoi_token_index=94)
    yield "gemma3_wrapper", transformers.Gemma3ForConditionalGeneration, transformers.Gemma3Config(**gemma3)
    mistral3 = wrapper("Mistral", CASES["mistral"][1], vision_config={**SIGLIP, "model_type": "pixtral"})
    yield "mistral3_wrapper", transformers.Mistral3ForConditionalGeneration, transformers.Mistral3Config(**mistral3)
    qwen3_5 = wrapper("Qwen3_5Text", CASES["qwen3_5"][1], vision_config=QWEN3_5_VISION)
    yield "qwen3_5_wrapper", transformers.Qwen3_5ForConditionalGeneration, transformers.Qwen3_5Config(**qwen3_5)
    llava = wrapper("Llama", dict(), vision_config={**SIGLIP, "model_type": "clip_vision_model"})
    mistral4 = dict(**{**LATENT, **GROUPS}, q_lora_rank=12, n_shared_experts=1, rope_parameters=MISTRAL4_YARN)
    mistral4 = wrapper("Mistral4", mistral4, vision_config={**SIGLIP, "model_type": "pixtral"})
    yield "mistral4_wrapper", transformers.Mistral3ForConditionalGeneration, transformers.Mistral3Config(**mistral4)
    yield "llava_wrapper", transformers.LlavaForConditionalGeneration, transformers.LlavaConfig(**llava)


def stacked(shapes):
    """The shapes with gates and ups, and downs, of all experts of a layer in one tensor each."""
    result = {}
    for name, shape in shapes.items():
        module, _, rest = name.partition(".experts.")
        if not rest:
            result[name] = shape
        elif rest.endswith("down_proj.weight"):
            result.setdefault(f"{module}.experts.down_proj", [0, *shape])[0] += 1
        elif rest.endswith("up_proj.weight"):
            result.setdefault(f"{module}.experts.gate_up_proj", [0, 2 * shape[0], shape[1]])[0] += 1
    return result


def values_of(name, shape):
    """Numbers in [-1, 1) that f16 holds and bf16 rounds, from the tensor's name."""
    seed = 0
    for byte in name.encode():
        seed = (seed * 31 + byte) % 2**32
    index = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) + np.uint64(seed)
    mixed = (index * np.uint64(2654435761)) % np.uint64(2**32)
    return np.asarray(((mixed >> np.uint64(21)).astype(np.float32) - 1024) / np.float32(1024)).reshape(shape)


def is_of_text(name):
    return "vision" not in name and "projector" not in name


def json_value(value):
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_value(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def described(file, file_type):
    """The metadata, but for names and the type of the file, and the tensors."""
    reader = gguf.GGUFReader(file)
    metadata = {
        key: json_value(field.contents())
        for key, field in reader.fields.items()
        if not key.startswith(("GGUF.", "general.name", "general.size_label", "general.base_model", "general.file_type"))
    }
    tensors = {
        tensor.name: dict(
            shape=[int(n) for n in reversed(tensor.shape)],
            **{file_type: f"{tensor.tensor_type.name} {xxhash.xxh3_64_hexdigest(tensor.data.tobytes())}"},
        )
        for tensor in reader.tensors
    }
    return dict(metadata=metadata, tensors=tensors)


TYPES = dict(
    f32=gguf.LlamaFileType.ALL_F32,
    f16=gguf.LlamaFileType.MOSTLY_F16,
    bf16=gguf.LlamaFileType.MOSTLY_BF16,
    q8_0=gguf.LlamaFileType.MOSTLY_Q8_0,
)


def no_vocabulary(self):
    pass


def turned_rows(part):
    """LlamaModel.permute for heads of which the first `part` turn. The converter's own interleaves the halves of whole
    heads, so that llama.cpp, which turns the first rows, would turn other pairs than the model does."""

    def permute(weights, heads, kv_heads):
        heads = heads if kv_heads is None else kv_heads
        rows = weights.reshape(heads, weights.shape[0] // heads, *weights.shape[1:])
        turned = int(rows.shape[1] * part)
        order = [i // 2 + i % 2 * turned // 2 for i in range(turned)] + list(range(turned, rows.shape[1]))
        return rows[:, order].reshape(weights.shape)

    return staticmethod(permute)


def exact_exp(values):
    """Returns torch.exp with each number rounded once: torch's own, of a matrix, has other last bits on other CPUs."""
    return values.to(torch.float64).exp().to(torch.float32)


def raw_config(folder, is_mistral_format=False):
    return json.loads((pathlib.Path(folder) / "config.json").read_text())


def convert(folder, file, type_name):
    hparams = ModelBase.load_hparams(folder, False)
    made_for = conversion.get_model_class(conversion.base.get_model_architecture(hparams, ModelType.TEXT), mmproj=False)
    made_for.no_mtp = True  # what predicts several tokens stays away, as with --no-mtp
    model = made_for(folder, TYPES[type_name], file)
    for one in (model, getattr(model, "impl", model)):
        type(one).set_vocab = no_vocabulary
    part = 0.5 if hparams["architectures"] == ["BambaForCausalLM"] else 1
    turned, rates = (unittest.mock.patch.object(LlamaModel, "permute", turned_rows(part)), unittest.mock.patch.object(torch, "exp", exact_exp))
    with turned, rates:
        model.write()
    return described(file, type_name)


def for_quantiser(file):
    """The file with an epsilon of RMS norms, which cyllama's llama.cpp needs of Nemotron-H and later ones do not."""
    reader = gguf.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()
    key = gguf.Keys.Attention.LAYERNORM_RMS_EPS.format(arch=architecture)
    if key in reader.fields:
        return file
    copy = file.with_name("copy.gguf")
    copy.unlink(missing_ok=True)
    epsilon = {key: MetadataDetails(gguf.GGUFValueType.FLOAT32, 1e-5)}
    copy_with_new_metadata(reader, gguf.GGUFWriter(copy, architecture), epsilon, [])
    return copy


def add_mixture_types(file, tensors):
    """Adds the encoding of each tensor in a Q4_K_M file that llama-quantize makes of `file`."""
    parameters = quantiser.LlamaModelQuantizeParams()
    parameters.ftype = gguf.LlamaFileType.MOSTLY_Q4_K_M.value
    quantised = file.with_name("quantised.gguf")
    quantiser.model_quantize(str(for_quantiser(file)), str(quantised), parameters)
    for tensor in gguf.GGUFReader(quantised).tensors:
        tensors[tensor.name]["q4_k_m"] = tensor.tensor_type.name
    quantised.unlink()


def write_adapter(folder, name, modules, weights):
    folder.mkdir()
    rank, factors = 2, {}
    for key, shape in weights.items():
        module = key.removesuffix(".weight")
        if not module.endswith(tuple(modules)):
            continue
        for which, sizes in (("A", [rank, shape[1]]), ("B", [shape[0], rank])):
            factor = f"base_model.model.{module}.lora_{which}.weight"
            factors[factor] = torch.from_numpy(values_of(factor, sizes))
    save_file(factors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=6, lora_dropout=0.0, bias="none")
    settings.update(target_modules=modules, base_model_name_or_path=name, fan_in_fan_out=False, inference_mode=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return settings, {key: list(value.shape) for key, value in factors.items()}


def write_expert_adapter(folder, name, experts, weights):
    """An adapter on all experts, in the form that the converter reads: a module for each expert and projection. Returns it as
    PEFT writes it, A [experts * rank, in] expert by expert, B [out, rank * experts] rank by rank."""
    folder.mkdir()
    rank, factors, of_modules = 2, {}, {}
    layers = sorted({key.split(f".{experts['files']}.")[0] for key in weights if f".{experts['files']}." in key})
    for layer in layers:
        files = f"{layer}.{experts['files']}"
        count = len([key for key in weights if key.startswith(f"{files}.") and f".{experts['down_proj'][0]}." in key])
        for tensor in ("gate_up_proj", "down_proj"):
            modules = experts[tensor]
            rows, columns = weights[f"{files}.0.{modules[0]}.weight"]
            path = f"base_model.model.{layer}.mlp.experts" + (".base_layer" if tensor == "gate_up_proj" else "")
            names = [f"{path}.lora_{which}.weight" for which in "AB"]
            a, b = (values_of(n, s) for n, s in zip(names, ([count * rank, columns], [len(modules) * rows, rank * count])))
            factors.update({names[0]: list(a.shape), names[1]: list(b.shape)})
            a, b = a.reshape(count, rank, columns), b.reshape(len(modules), rows, rank, count)
            for expert in range(count):
                for i, module in enumerate(modules):
                    of_module = f"base_model.model.{files}.{expert}.{module}"
                    of_modules[f"{of_module}.lora_A.weight"] = torch.from_numpy(a[expert].copy())
                    of_modules[f"{of_module}.lora_B.weight"] = torch.from_numpy(b[i, :, :, expert].copy())
    save_file(of_modules, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=6, lora_dropout=0.0, bias="none")
    settings.update(base_model_name_or_path=name, fan_in_fan_out=False, inference_mode=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    settings.update(target_modules=[], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
    return settings, factors


def convert_adapter(adapter, base, file):
    arguments, sys.argv = sys.argv, ["", str(adapter), "--base", str(base), "--outfile", str(file), "--outtype", "f32"]
    runpy.run_path(str(llama_cpp / "convert_lora_to_gguf.py"), run_name="__main__")
    sys.argv = arguments
    return described(file, "f32")


load_hparams = ModelBase.load_hparams
named = sys.argv[3:]
families = json.loads(out.read_text()) if named else {}
for name, kind, config in models():
    if named and name not in named:
        continue
    print(name, flush=True)
    ModelBase.load_hparams = staticmethod(raw_config if name in RAW else load_hparams)
    with tempfile.TemporaryDirectory() as temporary, torch.inference_mode():
        folder, file = pathlib.Path(temporary) / name, pathlib.Path(temporary) / "x.gguf"
        config.dtype = torch.float32
        kind(config).save_pretrained(folder)
        saved = json.loads((folder / "config.json").read_text())
        saved.update(PUBLISHED.get(name, {}))
        saved = {key: value for key, value in saved.items() if value is not None or key not in PUBLISHED.get(name, {})}
        (folder / "config.json").write_text(json.dumps(saved))
        # The converter cuts Gemma 3's embedding to so many tokens.
        tokens = dict(model=dict(vocab={str(i): i for i in range(SIZES["vocab_size"])}), added_tokens=[])
        (folder / "tokenizer.json").write_text(json.dumps(tokens))
        (path,) = folder.glob("*.safetensors")
        with safe_open(path, "pt") as stored:
            shapes = {key: list(stored.get_slice(key).get_shape()) for key in stored.keys()}
        if name in STACKED:
            shapes = stacked(shapes)
        save_file({key: torch.from_numpy(values_of(key, shape)) for key, shape in shapes.items()}, path, metadata={"format": "pt"})
        weights = {key: shape for key, shape in shapes.items() if is_of_text(key)}
        family = dict(config=saved, weights=weights)
        for type_name in TYPES:
            converted = convert(folder, file, type_name)
            family.setdefault("metadata", converted["metadata"])
            for key, tensor in converted["tensors"].items():
                family.setdefault("tensors", {}).setdefault(key, {}).update(tensor)
            if type_name == "f32":
                add_mixture_types(file, family["tensors"])
            file.unlink()
        if name in ADAPTERS or name in EXPERT_ADAPTERS:
            adapter = pathlib.Path(temporary) / "adapter"
            if name in ADAPTERS:
                settings, factors = write_adapter(adapter, name, ADAPTERS[name], weights)
            else:
                settings, factors = write_expert_adapter(adapter, name, EXPERT_ADAPTERS[name], weights)
            family["adapter"] = dict(config=settings, weights=factors, **convert_adapter(adapter, folder, file))
        families[name] = family


def compact(value, depth=0):
    """JSON with a line for each tensor and each number."""
    if isinstance(value, dict) and depth < 3 and value:
        inner = ",\n".join(f"{' ' * depth}{json.dumps(key)}: {compact(one, depth + 1)}" for key, one in value.items())
        return "{\n" + inner + "}"
    return json.dumps(value)


out.write_text(compact(families) + "\n")
