"""The tiny models of tests/golden/export/families.json (make_gguf_family_goldens.py converts them)."""
import transformers

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
