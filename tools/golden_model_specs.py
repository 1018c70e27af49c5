"""The tiny random models of tests/golden/models, which tools/make_model_goldens.py writes."""

import torch
from transformers import (AfmoeConfig, ApertusConfig, ArceeConfig, AutoModelForCausalLM, BambaConfig, Cohere2Config, CohereConfig, DeepseekV2Config, DeepseekV3Config, FalconH1Config, Gemma2Config, Gemma3TextConfig, Gemma4TextConfig, Gemma4UnifiedTextConfig, GemmaConfig, Glm4Config, Glm4MoeConfig, Glm4MoeLiteConfig, GptOssConfig, GraniteConfig, GraniteMoeConfig, GraniteMoeHybridConfig, HunYuanDenseV1Config, JambaConfig, Lfm2Config, Lfm2MoeConfig, LlamaConfig,
                          MiniMaxM2Config, Ministral3Config, Mistral4Config, Mistral4ForCausalLM, MistralConfig, MixtralConfig, NemotronConfig, NemotronHConfig, Olmo2Config, Olmo3Config, OlmoeConfig, Phi3Config,
                          Qwen2Config, Qwen2MoeConfig, Qwen3Config, Qwen3MoeConfig, Qwen3NextConfig, Qwen3_5MoeTextConfig, Qwen3_5TextConfig, SeedOssConfig, SmolLM3Config)

# transformers has this class, but only inside a larger model.
AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)

VOCAB = 96
SMALL = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=2, pad_token_id=None)


def model_specs():
    """name -> (config, dtype on disk, shard size or None, config style: of transformers 4 or 5, or of Gemma 4's files)"""
    llama3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    linear = {"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.5}
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
    longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                "short_factor": [1.0, 1.1, 1.5], "long_factor": [1.0, 2.0, 5.0]}
    return {
        # Llama 2: as many key-value heads as query heads.
        "llama2": (LlamaConfig(**SMALL, rms_norm_eps=1e-5, rope_parameters=plain), torch.float32, None, 4),
        # Llama 3.1 and 3.2: grouped queries, llama3 rope, tied head; head_dim 16, so that the three bands of the rope occur.
        "llama32": (LlamaConfig(**{**SMALL, "num_attention_heads": 2}, num_key_value_heads=1, rms_norm_eps=1e-5,
                                rope_parameters=llama3, tie_word_embeddings=True), torch.float32, None, 5),
        "llama_linear": (LlamaConfig(**SMALL, num_key_value_heads=2, rope_parameters=linear), torch.float32, "40KB", 4),
        "llama_bias": (LlamaConfig(**SMALL, num_key_value_heads=2, head_dim=12, attention_bias=True, mlp_bias=True,
                                   rope_parameters=plain), torch.float32, None, 5),
        "mistral": (MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=6, rope_parameters=plain),
                    torch.bfloat16, None, 5),
        # No base of 1e6 here: slow rotations leave the key bias's gradient to rounding, and AdamW makes steps of that.
        "qwen2": (Qwen2Config(**SMALL, num_key_value_heads=2, rope_parameters=plain), torch.float32, None, 4),
        # The first layer sees everything, the second a window.
        "qwen2_tied": (Qwen2Config(**SMALL, num_key_value_heads=1, tie_word_embeddings=True, use_sliding_window=True,
                                   sliding_window=5, max_window_layers=1, rope_parameters=plain), torch.float32, None, 4),
        "qwen3": (Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=12, rope_parameters={**plain, "rope_theta": 1e6}),
                  torch.float32, None, 5),
        "qwen3_tied": (Qwen3Config(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16,
                                   tie_word_embeddings=True, rope_parameters=plain), torch.float16, None, 5),
        # Caps that scores and logits reach; the first layer has a window, the second none.
        "gemma2": (Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=12, query_pre_attn_scalar=24, sliding_window=6,
                                attn_logit_softcapping=2.0, final_logit_softcapping=8.0, tie_word_embeddings=False,
                                rope_parameters=plain),
                   torch.float32, None, 4),
        # The layer in the middle sees everything, and is rotated in another way than the others.
        "gemma3": (Gemma3TextConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=1, head_dim=16,
                                    query_pre_attn_scalar=24, sliding_window=5,
                                    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                    rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                                     "full_attention": {"rope_type": "linear", "rope_theta": 10000.0,
                                                                        "factor": 2.0}}), torch.bfloat16, None, 5),
        "phi3": (Phi3Config(**SMALL, num_key_value_heads=2, sliding_window=6, rope_parameters=plain), torch.float32,
                 None, 4),
        # Frequencies of all three kinds, and a factor of cos and sin.
        "qwen3_yarn": (Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=16, rope_parameters=yarn), torch.float32,
                       None, 5),
        # All sequences are short ones; six of eight elements of a head turn.
        "phi3_longrope": (Phi3Config(**SMALL, num_key_value_heads=2, original_max_position_embeddings=20,
                                     rope_parameters=longrope), torch.float32, None, 5),
        # Some sequences are long ones.
        "phi3_long": (Phi3Config(**SMALL, num_key_value_heads=2, original_max_position_embeddings=8,
                                 rope_parameters=longrope), torch.float32, None, 4),
        # Without biases: where a key does not turn, the gradient of its bias is rounding alone.
        "glm4": (Glm4Config(**SMALL, num_key_value_heads=2, head_dim=12, attention_bias=False,
                            rope_parameters={**plain, "partial_rotary_factor": 0.5}), torch.float32, None, 5),
        # Queries grow at the positions 4, 8 and 12.
        "ministral3": (Ministral3Config(**SMALL, num_key_value_heads=2, head_dim=16, sliding_window=None,
                                        rope_parameters={**yarn, "original_max_position_embeddings": 4,
                                                         "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
                                                         "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}),
                       torch.bfloat16, None, 5),
        # None of the four multipliers is a power of two, or what it would be elsewhere.
        "granite": (GraniteConfig(**SMALL, num_key_value_heads=2, embedding_multiplier=3.0, attention_multiplier=0.3,
                                  residual_multiplier=0.6, logits_scaling=1.7, rope_parameters=plain), torch.float32, None, 4),
        # The second layer rotates nothing, and has a window.
        "smollm3": (SmolLM3Config(**SMALL, num_key_value_heads=2, no_rope_layer_interval=2, use_sliding_window=True,
                                  sliding_window=6, rope_parameters=plain), torch.float32, None, 4),
        "olmo2": (Olmo2Config(**SMALL, num_key_value_heads=2, rope_parameters=plain), torch.float32, None, 5),
        "arcee": (ArceeConfig(**SMALL, num_key_value_heads=2, mlp_bias=True, rope_parameters=plain), torch.float32, None,
                  4),
        "seed_oss": (SeedOssConfig(**SMALL, num_key_value_heads=2, head_dim=12, attention_dropout=0.0,
                                   residual_dropout=0.0, rope_parameters=plain), torch.float32, None, 5),
        "gemma": (GemmaConfig(**SMALL, num_key_value_heads=1, head_dim=12, rope_parameters=plain), torch.bfloat16, None,
                  4),
        # The layer in the middle sees everything, and is alone in being stretched.
        "olmo3": (Olmo3Config(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, sliding_window=6,
                              layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                              rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                               "full_attention": {"rope_type": "linear", "rope_theta": 10000.0,
                                                                  "factor": 2.0}}), torch.float32, None, 5),
        "cohere": (CohereConfig(**SMALL, num_key_value_heads=2, attention_bias=True, logit_scale=0.7, rope_parameters=plain),
                   torch.float32, None, 4),
        # The layer in the middle has a feed-forward.
        "qwen3_moe": (Qwen3MoeConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=12,
                                     moe_intermediate_size=20, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True,
                                     mlp_only_layers=[1], rope_parameters=plain), torch.float32, None, 5),
        "mixtral": (MixtralConfig(**{**SMALL, "intermediate_size": 20}, num_key_value_heads=2, num_local_experts=8,
                                  num_experts_per_tok=2, sliding_window=6, rope_parameters=plain), torch.bfloat16, None, 4),
        "olmoe": (OlmoeConfig(**{**SMALL, "intermediate_size": 20}, num_key_value_heads=2, num_experts=8,
                              num_experts_per_tok=3, rope_parameters=plain), torch.float32, None, 5),
        # The first layer has a feed-forward, the second a mixture and an expert that all tokens share.
        "qwen2_moe": (Qwen2MoeConfig(**SMALL, num_key_value_heads=2, moe_intermediate_size=20, num_experts=8,
                                     shared_expert_intermediate_size=24, num_experts_per_tok=3, decoder_sparse_step=2,
                                     use_sliding_window=True, sliding_window=6, rope_parameters=plain), torch.float32, None, 4),
        # A feed-forward, then mixtures: two of four groups for a token, which has three experts, and one that all share.
        "glm4_moe": (Glm4MoeConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16, use_qk_norm=True,
                                   moe_intermediate_size=12, n_routed_experts=8, num_experts_per_tok=3, n_group=4,
                                   topk_group=2, routed_scaling_factor=1.7, first_k_dense_replace=1, num_mtp_layers=0,
                                   rope_parameters={**plain, "partial_rotary_factor": 0.5}), torch.float32, None, 5),
        # A window, none, a window; clamps that gates and ups reach.
        "gpt_oss": (GptOssConfig(**{**SMALL, "intermediate_size": 20, "num_hidden_layers": 3}, num_key_value_heads=2,
                                 head_dim=16, num_local_experts=8, num_experts_per_tok=4, sliding_window=6, swiglu_limit=0.8,
                                 rope_parameters={**yarn, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}),
                    torch.bfloat16, None, 5),
        # FP8 in files: in blocks, and of a mixture; with one scale for each tensor.
        "qwen3_fp8": (Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=16, rope_parameters=plain), torch.bfloat16, None, 5),
        "qwen3_moe_fp8": (Qwen3MoeConfig(**SMALL, num_key_value_heads=2, head_dim=12, moe_intermediate_size=16, num_experts=8,
                                         num_experts_per_tok=3, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1],
                                         rope_parameters=plain), torch.bfloat16, None, 5),
        "ministral3_fp8": (Ministral3Config(**SMALL, num_key_value_heads=2, head_dim=16, sliding_window=None,
                                            rope_parameters={**yarn, "original_max_position_embeddings": 4, "mscale": 1.0,
                                                             "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}),
                           torch.bfloat16, None, 5),
        # The experts are mxfp4 in files: two blocks in a row of down_proj, one in the others.
        "gpt_oss_mxfp4": (GptOssConfig(**{**SMALL, "intermediate_size": 64}, num_key_value_heads=2, head_dim=16,
                                       num_local_experts=4, num_experts_per_tok=2, sliding_window=6, swiglu_limit=0.8,
                                       rope_parameters={**yarn, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}),
                          torch.bfloat16, None, 5),
        # A feed-forward, then mixtures whose experts are chosen in two of four groups by the best expert of each. Values are
        # narrower than keys, and rope stretches scores, too.
        "deepseek_v2": (DeepseekV2Config(**SMALL, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
                                         v_head_dim=12, moe_intermediate_size=12, n_routed_experts=8, num_experts_per_tok=3,
                                         n_shared_experts=2, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                                         routed_scaling_factor=1.7, first_k_dense_replace=1,
                                         rope_parameters={**yarn, "mscale": 0.7, "mscale_all_dim": 1.4}),
                        torch.float32, None, 4),
        "deepseek_v3": (DeepseekV3Config(**SMALL, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8,
                                         qk_rope_head_dim=8, v_head_dim=12, moe_intermediate_size=12, n_routed_experts=8,
                                         num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2,
                                         routed_scaling_factor=1.7, first_k_dense_replace=1, num_nextn_predict_layers=0,
                                         attention_bias=True, rope_parameters=plain), torch.bfloat16, None, 5),
        # Values as wide as keys; the layer in the middle is dense.
        "glm4_moe_lite": (Glm4MoeLiteConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8,
                                            qk_rope_head_dim=8, v_head_dim=16, moe_intermediate_size=12, n_routed_experts=8,
                                            num_experts_per_tok=3, n_shared_experts=1, n_group=1, topk_group=1,
                                            routed_scaling_factor=1.8, mlp_layer_types=["sparse", "dense", "sparse"],
                                            rope_parameters=plain), torch.float32, None, 5),
        # Convolutions at both ends; a width of feed-forwards that the config's only leads to.
        "lfm2": (Lfm2Config(**{**SMALL, "num_hidden_layers": 4, "intermediate_size": 72}, num_key_value_heads=2, block_multiple_of=16,
                            block_ffn_dim_multiplier=0.9, conv_bias=True, tie_word_embeddings=True,
                            layer_types=["conv", "full_attention", "conv", "conv"], rope_parameters=plain), torch.float32, None, 5),
        # Attention first, then a convolution of four taps with a feed-forward, and mixtures behind both kinds.
        "lfm2_moe": (Lfm2MoeConfig(**{**SMALL, "num_hidden_layers": 4}, num_key_value_heads=2, moe_intermediate_size=12, num_experts=5,
                                   num_experts_per_tok=2, num_dense_layers=2, routed_scaling_factor=1.7, conv_L_cache=4,
                                   tie_word_embeddings=False, layer_types=["full_attention", "conv", "conv", "full_attention"],
                                   rope_parameters=plain), torch.bfloat16, None, 5),
        # The delta rule before and behind attention; two value heads for a key head, of another size. What it gives is often
        # near zero, whose direction is rounding: an epsilon keeps that small.
        "qwen3_next": (Qwen3NextConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16, linear_num_key_heads=2,
                                       linear_num_value_heads=4, linear_key_head_dim=16, rms_norm_eps=1e-3, linear_value_head_dim=8, moe_intermediate_size=12,
                                       shared_expert_intermediate_size=20, num_experts=5, num_experts_per_tok=2, mlp_only_layers=[0],
                                       layer_types=["linear_attention", "full_attention", "linear_attention"],
                                       rope_parameters={**plain, "partial_rotary_factor": 0.25}), torch.bfloat16, None, 5),
        # A convolution of three taps; attention first.
        "qwen3_5": (Qwen3_5TextConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16, linear_num_key_heads=2,
                                      linear_num_value_heads=4, linear_key_head_dim=16, rms_norm_eps=1e-3, linear_value_head_dim=6, linear_conv_kernel_dim=3,
                                      tie_word_embeddings=True, layer_types=["full_attention", "linear_attention", "linear_attention"],
                                      rope_parameters={**plain, "partial_rotary_factor": 0.25}), torch.float32, None, 5),
        # The files have the experts of a layer in two tensors.
        "qwen3_5_moe": (Qwen3_5MoeTextConfig(**{k: v for k, v in SMALL.items() if k != "intermediate_size"}, num_key_value_heads=2, head_dim=16,
                                             linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=16, rms_norm_eps=1e-3,
                                             linear_value_head_dim=8, moe_intermediate_size=12, shared_expert_intermediate_size=20,
                                             num_experts=5, num_experts_per_tok=2, layer_types=["linear_attention", "full_attention"],
                                             rope_parameters={**plain, "partial_rotary_factor": 0.25}), torch.float32, None, 5),
        # The layer in the middle sees everything, and rotates nothing.
        "cohere2": (Cohere2Config(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, sliding_window=6, logit_scale=0.6,
                                  layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                  rope_parameters=plain), torch.bfloat16, None, 5),
        # The layer in the middle has a window, and heads of another size; the others have fewer keys, which are their values.
        "gemma4": (Gemma4TextConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=12, global_head_dim=16,
                                    num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0,
                                    sliding_window=6, final_logit_softcapping=8.0,
                                    layer_types=["full_attention", "sliding_attention", "full_attention"],
                                    rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                                     "full_attention": {"rope_type": "proportional", "rope_theta": 10000.0,
                                                                        "partial_rotary_factor": 0.5}}), torch.bfloat16, None, 5),
        # A window, then none; ropes as config.json leaves them out.
        "gemma4_unified": (Gemma4UnifiedTextConfig(**SMALL, num_key_value_heads=2, head_dim=12, global_head_dim=16, sliding_window=6,
                                                   tie_word_embeddings=False), torch.float32, None, "global"),
        # Experts beside each feed-forward.
        "gemma4_moe": (Gemma4TextConfig(**SMALL, num_key_value_heads=2, head_dim=12, global_head_dim=16, num_global_key_value_heads=1,
                                        attention_k_eq_v=True, hidden_size_per_layer_input=0, sliding_window=6, enable_moe_block=True,
                                        num_experts=8, top_k_experts=3, moe_intermediate_size=12, tie_word_embeddings=False),
                       torch.float32, None, "global"),
        # A window, none, a window; the others take keys and values of the last one of their kind, have wide feed-forwards, and
        # all layers have inputs of their own, whose scales an epsilon lets through the norms behind them. The token that pads
        # occurs in the batches.
        "gemma4_e2b": (Gemma4TextConfig(**{**SMALL, "num_hidden_layers": 6, "intermediate_size": 24, "pad_token_id": 71, "initializer_range": 0.12}, num_key_value_heads=2, head_dim=12,
                                        global_head_dim=16, hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCAB,
                                        num_kv_shared_layers=3, use_double_wide_mlp=True, rms_norm_eps=0.1, sliding_window=6, final_logit_softcapping=8.0,
                                        layer_types=["sliding_attention", "full_attention", "sliding_attention",
                                                     "sliding_attention", "full_attention", "full_attention"],
                                        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                                         "full_attention": {"rope_type": "proportional", "rope_theta": 10000.0,
                                                                            "partial_rotary_factor": 0.5}}), torch.bfloat16, None, 5),
        # None of the four multipliers is a power of two.
        "granitemoe": (GraniteMoeConfig(**{**SMALL, "intermediate_size": 20}, num_key_value_heads=2, embedding_multiplier=3.0,
                                        attention_multiplier=0.3, residual_multiplier=0.6, logits_scaling=1.7, num_local_experts=8,
                                        num_experts_per_tok=3, rope_parameters=plain), torch.float32, None, 5),
        # Two groups of two heads of state spaces; the dense one has a rope and a bias wherever there may be one.
        "granitemoehybrid": (GraniteMoeHybridConfig(
            **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, embedding_multiplier=3.0, attention_multiplier=0.3,
            residual_multiplier=0.6, logits_scaling=1.7, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=40,
            position_embedding_type="rope", rope_parameters=plain, layer_types=["linear_attention", "full_attention", "linear_attention"],
            mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=3, mamba_chunk_size=8, mamba_proj_bias=True,
            tie_word_embeddings=True), torch.float32, None, 5),
        "granitemoehybrid_moe": (GraniteMoeHybridConfig(
            **{**SMALL, "intermediate_size": 20}, num_key_value_heads=2, embedding_multiplier=3.0, attention_multiplier=0.3,
            residual_multiplier=0.6, logits_scaling=1.7, num_local_experts=8, num_experts_per_tok=3, shared_intermediate_size=24,
            layer_types=["full_attention", "linear_attention"], mamba_n_heads=4, mamba_d_state=16, mamba_chunk_size=8),
            torch.bfloat16, None, 5),
        # One mixer a layer, a feed-forward among the first and the last of them; some steps are the least. The token that pads
        # occurs in the batches. Its config has a pattern, as those of the hub.
        "nemotron_h": (NemotronHConfig(
            **{k: v for k, v in {**SMALL, "pad_token_id": 71}.items() if k != "num_hidden_layers"}, num_key_value_heads=2, head_dim=12,
            layers_block_type=["mlp", "linear_attention", "full_attention", "linear_attention", "mlp"], mamba_num_heads=6, mamba_head_dim=8,
            n_groups=2, ssm_state_size=12, conv_kernel=3, chunk_size=8, use_bias=True, mlp_bias=True, time_step_min=0.5),
            torch.float32, None, "pattern"),
        # Groups of experts, latent rows, and the router's weights in f32; the attention is behind all states.
        "nemotron_h_moe": (NemotronHConfig(
            **{k: v for k, v in SMALL.items() if k != "num_hidden_layers"}, num_key_value_heads=1, head_dim=16,
            layers_block_type=["linear_attention", "moe", "linear_attention", "full_attention", "moe"], mamba_num_heads=4, mamba_head_dim=10,
            n_groups=1, ssm_state_size=16, chunk_size=8, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2,
            moe_intermediate_size=12, moe_latent_size=20, moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.7),
            torch.bfloat16, None, 5),
        # Multipliers of all kinds, none a power of two, and a bias wherever there may be one; norms before gates, by groups. The
        # second has neither norms nor limits that change nothing, and a tied head.
        "falcon_h1": (FalconH1Config(
            **SMALL, num_key_value_heads=2, attention_bias=True, mlp_bias=True, mamba_proj_bias=True, projectors_bias=True, mamba_rms_norm=True,
            mamba_d_ssm=40, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=3, mamba_chunk_size=8, embedding_multiplier=3.0,
            lm_head_multiplier=0.6, key_multiplier=0.7, attention_in_multiplier=1.3, attention_out_multiplier=0.9, ssm_in_multiplier=1.2,
            ssm_out_multiplier=0.7, ssm_multipliers=[0.7, 1.1, 0.9, 1.3, 0.6], mlp_multipliers=[0.9, 1.4], rope_parameters=plain),
            torch.float32, None, 5),
        "falcon_h1_tied": (FalconH1Config(
            **{**SMALL, "pad_token_id": 71}, num_key_value_heads=1, mamba_d_ssm=None, mamba_n_heads=4, mamba_d_state=16, mamba_chunk_size=8,
            mamba_conv_bias=False, time_step_limit=(0.5, 1.2), ssm_out_multiplier=0.7, key_multiplier=0.4, tie_word_embeddings=True,
            rope_parameters=plain), torch.bfloat16, None, 5),
        "bamba": (BambaConfig(
            **{**SMALL, "num_hidden_layers": 3, "pad_token_id": 71, "initializer_range": 0.15}, num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=4, mamba_n_groups=2,
            mamba_d_state=12, mamba_chunk_size=8, rope_parameters={"rope_type": "default", "rope_theta": 10000.0}), torch.float32, None, 5),
        # A scan with a mixture, attention with a feed-forward, a scan with a mixture, and one with a feed-forward; all taps and
        # widths differ from their defaults. An epsilon keeps small what x_proj gives from being a direction alone. The token that pads occurs in the batches.
        "jamba": (JambaConfig(
            **{**SMALL, "num_hidden_layers": 4, "intermediate_size": 20, "pad_token_id": 71}, rms_norm_eps=0.05, num_key_value_heads=2, num_experts=8, num_experts_per_tok=3,
            expert_layer_period=2, expert_layer_offset=0, attn_layer_period=3, attn_layer_offset=1, mamba_d_state=6, mamba_d_conv=3,
            mamba_dt_rank=5, mamba_proj_bias=True), torch.float32, None, 5),
        "minimax_m2": (MiniMaxM2Config(**{**SMALL, "intermediate_size": 20}, num_key_value_heads=2, head_dim=16, num_local_experts=8,
                                       num_experts_per_tok=3, rope_parameters={**plain, "partial_rotary_factor": 0.5}),
                       torch.float32, None, 5),
        # A window with a feed-forward, then mixtures: without a window, and so without rotation, and with one. A gate of its own
        # weighs what heads see, and the embedding is scaled.
        "afmoe": (AfmoeConfig(**{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=12, moe_intermediate_size=12, num_experts=8,
                              num_experts_per_tok=3, num_shared_experts=2, num_dense_layers=1, route_scale=1.7, mup_enabled=True,
                              sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                              rope_parameters=plain), torch.bfloat16, None, 5),
        # The numbers of the activation that files may hold differ from those that transformers starts with.
        "apertus": (ApertusConfig(**SMALL, num_key_value_heads=2, rope_parameters=llama3), torch.bfloat16, None, 5),
        "nemotron": (NemotronConfig(**SMALL, num_key_value_heads=2, head_dim=12, attention_bias=False, mlp_bias=True,
                                    rope_parameters={**plain, "partial_rotary_factor": 0.5}), torch.float32, None, 4),
        # Norms of heads behind their rotation, whose base is stretched by a number.
        "hunyuan_v1_dense": (HunYuanDenseV1Config(**SMALL, num_key_value_heads=2, head_dim=12,
                                                  rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 30.0,
                                                                   "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                                                                   "mscale_all_dim": 1.0}), torch.float32, None, 5),
        # Experts in two of four groups by the two best of each, in stacks; queries grow at the positions 4, 8 and 12.
        "mistral4": (Mistral4Config(**SMALL, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8,
                                    qk_rope_head_dim=8, v_head_dim=12, moe_intermediate_size=12, n_routed_experts=8,
                                    num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2, routed_scaling_factor=1.7,
                                    first_k_dense_replace=1,
                                    rope_parameters={**yarn, "original_max_position_embeddings": 4, "beta_fast": 32.0,
                                                     "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                                     "llama_4_scaling_beta": 0.3}), torch.bfloat16, None, 5),
    }
