"""Computes rope parameters by transformers."""

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


def rope_goldens():
    """Inverse frequencies of models people use, and of odd corners."""
    llama3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}
    yarn = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}
    ministral3 = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
                  "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0}
    longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 4096,
                "short_factor": [1 + i / 64 for i in range(48)], "long_factor": [1.5 + i for i in range(48)]}
    cases = {
        "llama2 7b": (128, {"rope_type": "default", "rope_theta": 10000.0}),
        "llama 3.1 8b": (128, {**llama3, "rope_theta": 500000.0, "factor": 8.0}),
        "llama 3.2 1b": (64, {**llama3, "rope_theta": 500000.0, "factor": 32.0}),
        "smollm2 135m": (64, {"rope_type": "default", "rope_theta": 100000.0}),
        "qwen3 8b": (128, {"rope_type": "default", "rope_theta": 1000000.0}),
        "linear by 4": (96, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
        "qwen3 stretched by 4": (128, yarn),
        "yarn of all options": (64, {**yarn, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False,
                                     "attention_factor": 1.25}),
        "yarn with two scales": (64, {**yarn, "mscale": 0.7, "mscale_all_dim": 1.4}),
        "yarn by the lengths": (64, {**yarn, "factor": None}),
        "ministral 3": (128, ministral3),
        "longrope": (96, longrope),
        "longrope with a factor": (96, {**longrope, "attention_factor": 1.5}),
        "gemma 4": (512, {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}),
        "proportional by 4": (24, {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.3, "factor": 4.0}),
    }
    result = []
    for name, (head_dim, rope) in cases.items():
        config = LlamaConfig(head_dim=head_dim, max_position_embeddings=131072, rope_parameters=dict(rope))
        compute = ROPE_INIT_FUNCTIONS.get(rope["rope_type"], LlamaRotaryEmbedding.compute_default_rope_parameters)
        inv_freq, scale = compute(config)
        case = {"name": name, "config": {"head_dim": head_dim, "rope_parameters": rope}, "inv_freq": inv_freq.tolist(),
                "attention_factor": scale}
        if rope["rope_type"] == "longrope":
            case["long_inv_freq"] = compute(config, seq_len=4097)[0].tolist()
        result.append(case)
    return result
