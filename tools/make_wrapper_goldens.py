#!/usr/bin/env python3
"""Writes tests/golden/wrappers: tiny random models of text inside larger ones, and what transformers, torch and peft make
of them when text alone is trained.

    pip install torch transformers peft safetensors     # made with torch 2.15, transformers 5.24, peft 0.21
    python tools/make_wrapper_goldens.py tests/golden/wrappers
    python tools/make_wrapper_goldens.py tests/golden/wrappers --only gemma4    # this folder; nothing else is touched

The batches are those of tools/make_model_goldens.py, and so is what NAME/ holds. The towers are frozen, and no image is
seen.
"""

import argparse
import shutil
from pathlib import Path

import peft
import torch
import transformers
from transformers import Gemma3Config, Gemma4Config, LlavaConfig, Mistral3Config

import make_model_goldens as goldens
from golden_batches import make_batches
from golden_model_folders import randomise
from golden_model_specs import SMALL, VOCAB
from golden_training import trainable

TEXT = {k: v for k, v in SMALL.items()}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
TOWER = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)


def specs():
    """name -> (config, dtype on disk, arguments of save_pretrained)"""
    gemma3 = Gemma3Config(
        text_config=dict(**{**TEXT, "num_hidden_layers": 3}, num_key_value_heads=1, head_dim=16,
                         query_pre_attn_scalar=24, sliding_window=5,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                         rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                          "full_attention": {"rope_type": "linear", "rope_theta": 10000.0,
                                                             "factor": 2.0}}),
        vision_config=TOWER, mm_tokens_per_image=4, image_token_index=VOCAB - 1)
    # Its head is tied by the wrapper's key alone.
    mistral3 = Mistral3Config(
        text_config=dict(**TEXT, model_type="mistral", num_key_value_heads=2, sliding_window=6, rope_parameters=PLAIN),
        vision_config=dict(**TOWER, head_dim=4), image_token_index=VOCAB - 1)
    # Latent attention, and experts that files stack.
    mistral4 = Mistral3Config(
        text_config=dict(**TEXT, model_type="mistral4", num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=8, qk_nope_head_dim=8,
                         qk_rope_head_dim=4, v_head_dim=6, moe_intermediate_size=12, n_routed_experts=4, num_experts_per_tok=2,
                         first_k_dense_replace=1,
                         rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 4,
                                          "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                          "llama_4_scaling_beta": 0.3}),
        vision_config=dict(**TOWER, head_dim=4), image_token_index=VOCAB - 1)
    llava = LlavaConfig(
        text_config=dict(**TEXT, model_type="llama", num_key_value_heads=2, rope_parameters=PLAIN),
        vision_config=dict(**TOWER), image_token_index=VOCAB - 1)
    # Towers for images and sound; shared keys and inputs by layer in the text.
    gemma4 = Gemma4Config(
        text_config=dict(**{**TEXT, "num_hidden_layers": 4, "intermediate_size": 16, "pad_token_id": 0, "initializer_range": 0.16}, num_key_value_heads=1, head_dim=8,
                         global_head_dim=12, hidden_size_per_layer_input=4, vocab_size_per_layer_input=VOCAB,
                         num_kv_shared_layers=2, use_double_wide_mlp=True, rms_norm_eps=0.1, sliding_window=6,
                         layer_types=["sliding_attention", "full_attention"] * 2,
                         rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                          "full_attention": {"rope_type": "proportional", "rope_theta": 10000.0,
                                                             "partial_rotary_factor": 0.5}}),
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                           head_dim=4, patch_size=2, position_embedding_size=4),
        audio_config=dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, subsampling_conv_channels=[4, 4],
                          output_proj_dims=8),
        image_token_id=VOCAB, audio_token_id=VOCAB + 1, video_token_id=VOCAB + 2)  # as no text has them
    return {
        "gemma3": (gemma3, torch.float32, {}),
        # The names of transformers' own classes.
        "mistral3": (mistral3, torch.bfloat16, {"save_original_format": False}),
        "llava": (llava, torch.float32, {"max_shard_size": "40KB"}),
        "gemma4": (gemma4, torch.bfloat16, {}),
        "mistral4": (mistral4, torch.bfloat16, {}),
    }


def write_model(folder, spec, seed):
    config, dtype, arguments = spec
    torch.manual_seed(seed)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    randomise(model, seed)
    model.to(dtype).save_pretrained(folder, **arguments)
    (folder / "generation_config.json").unlink(missing_ok=True)


def load(folder):
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32,
                                                                     attn_implementation="eager").eval()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("model.language_model.") or name.startswith("lm_head."))
    return model


def write_adapter(folder, target, seed, rslora):
    model = load(folder)
    targets = [name for name, module in model.named_modules()
               if name.startswith("model.language_model.") and isinstance(module, torch.nn.Linear)]
    torch.manual_seed(seed)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets,
                                                         use_rslora=rslora, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in trainable(adapted).items():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    goldens.save_adapter(adapted, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="names of models, with commas between them: their folders alone")
    arguments = parser.parse_args()
    out, only = arguments.out, [name for name in arguments.only.split(",") if name]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for folder in ([out / name for name in only] or [out]):
        shutil.rmtree(folder, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    # The functions that make_goldens calls to load and adapt a folder.
    goldens.load, goldens.write_adapter = load, write_adapter
    batches = make_batches()
    for seed, (name, spec) in enumerate(specs().items()):
        if only and name not in only:
            continue
        write_model(out / name, spec, seed)
        goldens.make_goldens(out / name, batches, seed)


if __name__ == "__main__":
    main()
