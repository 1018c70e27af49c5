#!/usr/bin/env python3
"""Writes machines/*.json (but for those whose figures were taken one by one: rtx4090, h200) and machines/models/*.json.

usage: tools/make_machines.py [--check]

The tables below are public figures: of GPUs NVIDIA's data sheets and architecture white papers, of models the config.json
that their makers publish on the Hugging Face hub (of a pipeline, its transformer's). --check: says whether the files are those of the tables.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "machines"

# Share of the data sheet's rate that large products, memory and attention reach.
BF16, F32, MEMORY, ATTENTION = 0.9, 0.7, 0.9, 0.75
# Bytes per second each way over PCIe x16, by generation, as copies from pinned memory reach them.
PCIE = {3: 12e9, 4: 25e9, 5: 50e9}
GIB = 1 << 30

# name: (title, GiB, GB/s, TFLOP/s of bf16 with f32 sums and without sparsity, TFLOP/s of f32, PCIe generation, lanes,
#        (cores, GiB of RAM, GB/s of RAM) beside it)
DESKTOP, OLDER, SERVER, LAPTOP = (16, 64, 60), (12, 32, 45), (16, 256, 200), (8, 32, 60)
GPUS = {
    "rtx3060-12gb": ("NVIDIA GeForce RTX 3060 12 GB", 12, 360, 25.5, 12.7, 4, 16, OLDER),
    "rtx3070-8gb": ("NVIDIA GeForce RTX 3070", 8, 448, 40.6, 20.3, 4, 16, OLDER),
    "rtx3080-10gb": ("NVIDIA GeForce RTX 3080 10 GB", 10, 760, 59.5, 29.8, 4, 16, OLDER),
    "rtx3090-24gb": ("NVIDIA GeForce RTX 3090", 24, 936, 71, 35.6, 4, 16, DESKTOP),
    "rtx4060-8gb": ("NVIDIA GeForce RTX 4060", 8, 272, 30.2, 15.1, 4, 8, OLDER),
    "rtx4060ti-16gb": ("NVIDIA GeForce RTX 4060 Ti 16 GB", 16, 288, 44.1, 22.1, 4, 8, OLDER),
    "rtx4070-12gb": ("NVIDIA GeForce RTX 4070", 12, 504, 58.3, 29.1, 4, 16, OLDER),
    "rtx4080-16gb": ("NVIDIA GeForce RTX 4080", 16, 717, 97.5, 48.7, 4, 16, DESKTOP),
    "rtx5070-12gb": ("NVIDIA GeForce RTX 5070", 12, 672, 61.7, 30.9, 5, 16, DESKTOP),
    "rtx5080-16gb": ("NVIDIA GeForce RTX 5080", 16, 960, 112.6, 56.3, 5, 16, DESKTOP),
    "rtx5090-32gb": ("NVIDIA GeForce RTX 5090", 32, 1792, 209.5, 104.8, 5, 16, DESKTOP),
    "laptop-rtx4050-6gb": ("NVIDIA GeForce RTX 4050 Laptop GPU", 6, 192, 18, 9, 4, 8, (8, 16, 50)),
    "laptop-rtx4060-8gb": ("NVIDIA GeForce RTX 4060 Laptop GPU", 8, 256, 23.2, 11.6, 4, 8, LAPTOP),
    "laptop-rtx4090-16gb": ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, 576, 66, 33, 4, 16, LAPTOP),
    "a10-24gb": ("NVIDIA A10", 24, 600, 125, 31.2, 4, 16, SERVER),
    "a6000-48gb": ("NVIDIA RTX A6000", 48, 768, 154.8, 38.7, 4, 16, SERVER),
    "a100-40gb": ("NVIDIA A100 40 GB SXM", 40, 1555, 312, 19.5, 4, 16, SERVER),
    "a100-80gb": ("NVIDIA A100 80 GB SXM", 80, 2039, 312, 19.5, 4, 16, SERVER),
    "l4-24gb": ("NVIDIA L4", 24, 300, 121, 30.3, 4, 16, SERVER),
    "l40s-48gb": ("NVIDIA L40S", 48, 864, 362, 91.6, 4, 16, SERVER),
    "h100-80gb": ("NVIDIA H100 80 GB SXM", 80, 3350, 989, 66.9, 5, 16, SERVER),
}

# Cards for which there is no build, so that `plan` says so by name: (title, GB, GB/s, TFLOP/s of f32, compute capability).
# From NVIDIA's data sheets of T4 and V100, and its white paper about Turing.
OLDER_GPUS = {
    "t4-16gb": ("NVIDIA T4", 16, 320, 8.1, "7.5"),
    "rtx2080ti-11gb": ("NVIDIA GeForce RTX 2080 Ti", 11, 616, 13.4, "7.5"),
    "v100-16gb": ("NVIDIA V100 16 GB SXM2", 16, 900, 15.7, "7.0"),
    "v100-32gb": ("NVIDIA V100 32 GB SXM2", 32, 900, 15.7, "7.0"),
}

# Macs by chip: GB of the memory that CPU and GPU share, from Apple's technical specifications. There is no build for them, either.
MACS = {
    "M1": (8, 16),
    "M1 Pro": (16, 32),
    "M1 Max": (32, 64),
    "M1 Ultra": (64, 128),
    "M2": (8, 16, 24),
    "M2 Pro": (16, 32),
    "M2 Max": (32, 64, 96),
    "M2 Ultra": (64, 128, 192),
    "M3": (8, 16, 24),
    "M3 Pro": (18, 36),
    "M3 Max": (36, 48, 64, 96, 128),
    "M3 Ultra": (96, 256, 512),
    "M4": (16, 24, 32),
    "M4 Pro": (24, 48, 64),
    "M4 Max": (36, 48, 64, 128),
}

# name: (title, cores, GiB of RAM, GB/s of RAM, GHz under load, f32 flop per cycle and core, rate of bf16 over that of f32)
CPUS = {
    "laptop-cpu-16gb": ("a laptop of 8 cores without a GPU", 8, 16, 50, 3.2, 32, 1),
    "desktop-cpu-64gb": ("a desktop of 16 Zen 5 cores without a GPU", 16, 64, 70, 4.2, 64, 2),
}


def shares(**given):
    lanes = ("compute", "host_to_device", "device_to_host", "disk_read", "disk_write", "host_compute", "peer")
    return {lane: given.get(lane, 0) for lane in lanes}


def of_gpu(title, gib, memory, bf16, f32, pcie, lanes, beside):
    cores, ram, ram_rate = beside
    link = PCIE[pcie] * lanes / 16
    nvme = (3.5e9, 3.0e9) if pcie == 3 else (6.5e9, 5.0e9)
    return {
        "name": f"{title} (by public figures)",
        "source": f"Not measured. NVIDIA's data sheet or white paper: {gib} GB at {memory} GB/s, {bf16} TFLOP/s bf16 with "
                  f"f32 sums and without sparsity, {f32} TFLOP/s f32; taken at {BF16:.0%} (bf16), {F32:.0%} (f32) and "
                  f"{MEMORY:.0%} (memory). PCIe {pcie}.0 x{lanes} at {link / 1e9:g} GB/s each way. Attention forward is "
                  f"assumed at {ATTENTION:.0%} of the bf16 figure; its backward is Spillway's own kernel in f32. Assumed "
                  f"beside it: {cores} cores, {ram} GiB of RAM at {ram_rate} GB/s, NVMe at 6.5 and 5 GB/s. About 4 % of "
                  "the device's memory is the driver's.",
        "device": "cuda",
        "threads": cores,
        "matrix_flops_f32": round(f32 * F32, 2) * 1e12,
        "matrix_flops_bf16": round(bf16 * BF16, 2) * 1e12,
        "operation_flops": {"attention": round(bf16 * ATTENTION, 2) * 1e12},
        "memory_bytes_per_second": round(memory * MEMORY) * 1e9,
        "host_bytes_per_second": ram_rate * 1e9,
        "operation_seconds": 5e-06,
        "capacity_bytes": {"device": int(gib * GIB * 0.96), "host": ram * GIB, "disk": 1000 * GIB},
        "link_bytes_per_second": shares(host_to_device=link, device_to_host=link, disk_read=nvme[0], disk_write=nvme[1]),
        "compute_share": shares(),
    }


def of_older_gpu(title, gb, memory, f32, capability):
    return {
        "name": f"{title} (by public figures)",
        "source": f"Not measured. NVIDIA's data sheet or white paper: {gb} GB at {memory} GB/s, {f32} TFLOP/s f32, no bf16; "
                  f"compute capability {capability}.",
        "not_supported": f"{title} has compute capability {capability} and no bf16; kernels are built for 8.0 (Ampere) and later",
    }


def of_mac(chip, gb):
    return {
        "name": f"a Mac with Apple {chip} and {gb} GB",
        "source": f"Apple's technical specifications: {gb} GB of memory, which CPU and GPU share.",
        "not_supported": "Apple's GPUs do not run it: there is no build for macOS, and kernels are built for NVIDIA's GPUs",
    }


def of_cpu(title, cores, ram, ram_rate, ghz, flops, bf16):
    f32 = cores * ghz * flops * 1e9 * 0.7
    return {
        "name": f"{title} (by public figures)",
        "source": f"Not measured. {cores} cores at {ghz} GHz with {flops} f32 flop per cycle, taken at 70 %; bf16 products at "
                  f"{bf16} times that; {ram} GiB of RAM at {ram_rate} GB/s; NVMe at 3.5 and 3 GB/s.",
        "device": "cpu",
        "threads": cores,
        "matrix_flops_f32": round(f32 / 1e9) * 1e9,
        "matrix_flops_bf16": round(f32 * bf16 / 1e9) * 1e9,
        "operation_flops": {},
        "memory_bytes_per_second": ram_rate * 1e9,
        "host_bytes_per_second": 0,
        "operation_seconds": 3e-06,
        "capacity_bytes": {"device": int(ram * GIB * 0.85), "host": 0, "disk": 500 * GIB},
        "link_bytes_per_second": shares(disk_read=3.5e9, disk_write=3.0e9),
        "compute_share": shares(disk_read=0.05, disk_write=0.05),
    }


# name: (hub id, model_type, hidden_size, intermediate_size, layers, heads, key and value heads, vocab_size,
#        max_position_embeddings, rope_theta, rms_norm_eps, tied, more)
LLAMA31 = {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 8192}}
LLAMA32 = {"rope_scaling": LLAMA31["rope_scaling"] | {"factor": 32.0}}
HEAD128 = {"head_dim": 128}
GELU = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}
GEMMA2 = GELU | {"head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
                 "final_logit_softcapping": 30.0}
GEMMA3 = GELU | {"head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512, "sliding_window_pattern": 6,
                 "rope_local_base_freq": 10000.0}
PHI3 = {"sliding_window": 2047}
GLM4 = HEAD128 | {"partial_rotary_factor": 0.5}
GEMMA = {"hidden_act": "gelu_pytorch_tanh", "head_dim": 256}


def granite(attention_multiplier, logits_scaling):
    return {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": attention_multiplier,
            "logits_scaling": logits_scaling}


# The published file has dropouts of 0.1, with which it is not trained here.
SEED_OSS = HEAD128 | {"attention_bias": True, "attention_out_bias": False, "attention_dropout": 0.0, "residual_dropout": 0.0}
COHERE2 = {"logit_scale": 0.25, "sliding_window": 4096, "sliding_window_pattern": 4}


def experts(count, used, inner, **more):
    return {"num_experts": count, "num_experts_per_tok": used, "moe_intermediate_size": inner} | more


def routed(count, used, inner, shared, **more):
    return {"n_routed_experts": count, "num_experts_per_tok": used, "moe_intermediate_size": inner, "n_shared_experts": shared,
            "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1} | more


def latent(query_rank, plain, values):
    return {"q_lora_rank": query_rank, "kv_lora_rank": 512, "qk_nope_head_dim": plain, "qk_rope_head_dim": 64, "v_head_dim": values}


def gpt_oss(layers, count):
    return {"head_dim": 64, "num_local_experts": count, "num_experts_per_tok": 4, "attention_bias": True, "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention"] * (layers // 2), "swiglu_limit": 7.0,
            "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                             "original_max_position_embeddings": 4096}}


def granite4(attention_layers, logits_scaling, attention_multiplier, heads, shared, count, used):
    return {"layer_types": ["attention" if i in attention_layers else "mamba" for i in range(40)],
            "mamba_n_heads": heads, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_n_groups": 1,
            "mamba_expand": 2, "mamba_conv_bias": True, "mamba_proj_bias": False, "shared_intermediate_size": shared,
            "num_local_experts": count, "num_experts_per_tok": used, "position_embedding_type": "nope",
            } | granite(attention_multiplier, logits_scaling)


def nemotron_h(pattern, heads, head_dim, **more):
    return {"hybrid_override_pattern": pattern, "head_dim": 128, "mamba_num_heads": heads, "mamba_head_dim": head_dim,
            "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "mlp_hidden_act": "relu2"} | more


DEEPSEEK_YARN = {"rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
                                  "original_max_position_embeddings": 4096}}
QWEN3_NEXT = {"head_dim": 256, "partial_rotary_factor": 0.25, "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 16,
              "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "shared_expert_intermediate_size": 512,
              "norm_topk_prob": True}
NANO2 = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
NANO3 = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
TRINITY = HEAD128 | {"num_dense_layers": 2, "num_shared_experts": 1, "sliding_window": 2048, "global_attn_every_n_layers": 4, "mup_enabled": True,
                     "route_scale": 2.826, "score_func": "sigmoid", "route_norm": True}


def lfm2(attention_layers, layers, **more):
    return {"layer_types": ["full_attention" if i in attention_layers else "conv" for i in range(layers)], "conv_L_cache": 3, "conv_bias": False,
            "norm_eps": 1e-5} | more


MODELS = {
    "smollm2-135m": ("HuggingFaceTB/SmolLM2-135M", "llama", 576, 1536, 30, 9, 3, 49152, 8192, 1e5, 1e-5, True, {}),
    "smollm2-360m": ("HuggingFaceTB/SmolLM2-360M", "llama", 960, 2560, 32, 15, 5, 49152, 8192, 1e5, 1e-5, True, {}),
    "smollm2-1.7b": ("HuggingFaceTB/SmolLM2-1.7B", "llama", 2048, 8192, 24, 32, 32, 49152, 8192, 130e3, 1e-5, True, {}),
    "tinyllama-1.1b": ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "llama", 2048, 5632, 22, 32, 4, 32000, 2048, 1e4, 1e-5, False, {}),
    "llama-2-7b": ("meta-llama/Llama-2-7b-hf", "llama", 4096, 11008, 32, 32, 32, 32000, 4096, 1e4, 1e-5, False, {}),
    "llama-2-13b": ("meta-llama/Llama-2-13b-hf", "llama", 5120, 13824, 40, 40, 40, 32000, 4096, 1e4, 1e-5, False, {}),
    "llama-2-70b": ("meta-llama/Llama-2-70b-hf", "llama", 8192, 28672, 80, 64, 8, 32000, 4096, 1e4, 1e-5, False, {}),
    "llama-3-8b": ("meta-llama/Meta-Llama-3-8B", "llama", 4096, 14336, 32, 32, 8, 128256, 8192, 5e5, 1e-5, False, {}),
    "llama-3.1-8b": ("meta-llama/Llama-3.1-8B", "llama", 4096, 14336, 32, 32, 8, 128256, 131072, 5e5, 1e-5, False, LLAMA31),
    "llama-3.1-70b": ("meta-llama/Llama-3.1-70B", "llama", 8192, 28672, 80, 64, 8, 128256, 131072, 5e5, 1e-5, False, LLAMA31),
    "llama-3.2-1b": ("meta-llama/Llama-3.2-1B", "llama", 2048, 8192, 16, 32, 8, 128256, 131072, 5e5, 1e-5, True, LLAMA32 | {"head_dim": 64}),
    "llama-3.2-3b": ("meta-llama/Llama-3.2-3B", "llama", 3072, 8192, 28, 24, 8, 128256, 131072, 5e5, 1e-5, True, LLAMA32 | HEAD128),
    "mistral-7b-v0.1": ("mistralai/Mistral-7B-v0.1", "mistral", 4096, 14336, 32, 32, 8, 32000, 32768, 1e4, 1e-5, False, {"sliding_window": 4096}),
    "mistral-7b-v0.3": ("mistralai/Mistral-7B-v0.3", "mistral", 4096, 14336, 32, 32, 8, 32768, 32768, 1e6, 1e-5, False, {"sliding_window": None}),
    "mistral-nemo-12b": ("mistralai/Mistral-Nemo-Base-2407", "mistral", 5120, 14336, 40, 32, 8, 131072, 128000, 1e6, 1e-5, False, HEAD128 | {"sliding_window": None}),
    "mistral-small-24b": ("mistralai/Mistral-Small-24B-Base-2501", "mistral", 5120, 32768, 40, 32, 8, 131072, 32768, 1e8, 1e-5, False, HEAD128 | {"sliding_window": None}),
    "qwen2.5-0.5b": ("Qwen/Qwen2.5-0.5B", "qwen2", 896, 4864, 24, 14, 2, 151936, 32768, 1e6, 1e-6, True, {}),
    "qwen2.5-1.5b": ("Qwen/Qwen2.5-1.5B", "qwen2", 1536, 8960, 28, 12, 2, 151936, 131072, 1e6, 1e-6, True, {}),
    "qwen2.5-3b": ("Qwen/Qwen2.5-3B", "qwen2", 2048, 11008, 36, 16, 2, 151936, 32768, 1e6, 1e-6, True, {}),
    "qwen2.5-7b": ("Qwen/Qwen2.5-7B", "qwen2", 3584, 18944, 28, 28, 4, 152064, 131072, 1e6, 1e-6, False, {}),
    "qwen2.5-14b": ("Qwen/Qwen2.5-14B", "qwen2", 5120, 13824, 48, 40, 8, 152064, 131072, 1e6, 1e-5, False, {}),
    "qwen2.5-32b": ("Qwen/Qwen2.5-32B", "qwen2", 5120, 27648, 64, 40, 8, 152064, 131072, 1e6, 1e-5, False, {}),
    "qwen2.5-72b": ("Qwen/Qwen2.5-72B", "qwen2", 8192, 29568, 80, 64, 8, 152064, 131072, 1e6, 1e-5, False, {}),
    "qwen3-0.6b": ("Qwen/Qwen3-0.6B", "qwen3", 1024, 3072, 28, 16, 8, 151936, 40960, 1e6, 1e-6, True, HEAD128),
    "qwen3-1.7b": ("Qwen/Qwen3-1.7B", "qwen3", 2048, 6144, 28, 16, 8, 151936, 40960, 1e6, 1e-6, True, HEAD128),
    "qwen3-4b": ("Qwen/Qwen3-4B", "qwen3", 2560, 9728, 36, 32, 8, 151936, 40960, 1e6, 1e-6, True, HEAD128),
    "qwen3-8b": ("Qwen/Qwen3-8B", "qwen3", 4096, 12288, 36, 32, 8, 151936, 40960, 1e6, 1e-6, False, HEAD128),
    "qwen3-14b": ("Qwen/Qwen3-14B", "qwen3", 5120, 17408, 40, 40, 8, 151936, 40960, 1e6, 1e-6, False, HEAD128),
    "qwen3-32b": ("Qwen/Qwen3-32B", "qwen3", 5120, 25600, 64, 64, 8, 151936, 40960, 1e6, 1e-6, False, HEAD128),
    "gemma-2-2b": ("google/gemma-2-2b", "gemma2", 2304, 9216, 26, 8, 4, 256000, 8192, 1e4, 1e-6, True, GEMMA2),
    "gemma-2-9b": ("google/gemma-2-9b", "gemma2", 3584, 14336, 42, 16, 8, 256000, 8192, 1e4, 1e-6, True, GEMMA2),
    "gemma-2-27b": ("google/gemma-2-27b", "gemma2", 4608, 36864, 46, 32, 16, 256000, 8192, 1e4, 1e-6, True, GEMMA2 | HEAD128 | {"query_pre_attn_scalar": 144}),
    "gemma-3-270m": ("google/gemma-3-270m", "gemma3_text", 640, 2048, 18, 4, 1, 262144, 32768, 1e6, 1e-6, True, GEMMA3),
    "gemma-3-1b": ("google/gemma-3-1b-pt", "gemma3_text", 1152, 6912, 26, 4, 1, 262144, 32768, 1e6, 1e-6, True, GEMMA3),
    "phi-3-mini-4k": ("microsoft/Phi-3-mini-4k-instruct", "phi3", 3072, 8192, 32, 32, 32, 32064, 4096, 1e4, 1e-5, False, PHI3),
    "phi-3-medium-4k": ("microsoft/Phi-3-medium-4k-instruct", "phi3", 5120, 17920, 40, 40, 10, 32064, 4096, 1e4, 1e-5, False, PHI3),
    "phi-3.5-mini": ("microsoft/Phi-3.5-mini-instruct", "phi3", 3072, 8192, 32, 32, 32, 32064, 131072, 1e4, 1e-5, False, {"sliding_window": None}),
    "phi-4-mini": ("microsoft/Phi-4-mini-instruct", "phi3", 3072, 8192, 32, 24, 8, 200064, 131072, 1e4, 1e-5, True, {"sliding_window": None, "partial_rotary_factor": 0.75}),
    "phi-4": ("microsoft/phi-4", "phi3", 5120, 17920, 40, 40, 10, 100352, 16384, 250e3, 1e-5, False, {"sliding_window": None}),
    "glm-4-9b-0414": ("zai-org/GLM-4-9B-0414", "glm4", 4096, 13696, 40, 32, 2, 151552, 32768, 1e4, 1e-5, False, GLM4 | {"attention_bias": True}),
    "glm-4-32b-0414": ("zai-org/GLM-4-32B-0414", "glm4", 6144, 23040, 61, 48, 2, 151552, 32768, 1e4, 1e-5, False, GLM4 | {"attention_bias": False}),
    "granite-3.3-2b": ("ibm-granite/granite-3.3-2b-instruct", "granite", 2048, 8192, 40, 32, 8, 49159, 131072, 1e7, 1e-5, True, granite(0.015625, 8.0)),
    "granite-3.3-8b": ("ibm-granite/granite-3.3-8b-instruct", "granite", 4096, 12800, 40, 32, 8, 49159, 131072, 1e7, 1e-5, True, granite(0.0078125, 16.0)),
    "smollm3-3b": ("HuggingFaceTB/SmolLM3-3B", "smollm3", 2048, 11008, 36, 16, 4, 128256, 65536, 5e6, 1e-6, True, {"no_rope_layer_interval": 4}),
    "olmo-2-1b": ("allenai/OLMo-2-0425-1B", "olmo2", 2048, 8192, 16, 16, 16, 100352, 4096, 5e5, 1e-6, False, {}),
    "olmo-2-7b": ("allenai/OLMo-2-1124-7B", "olmo2", 4096, 11008, 32, 32, 32, 100352, 4096, 5e5, 1e-6, False, {}),
    "olmo-2-13b": ("allenai/OLMo-2-1124-13B", "olmo2", 5120, 13824, 40, 40, 40, 100352, 4096, 5e5, 1e-6, False, {}),
    "command-r7b": ("CohereLabs/c4ai-command-r7b-12-2024", "cohere2", 4096, 14336, 32, 32, 8, 256000, 8192, 5e4, 1e-5, True, COHERE2),
    "seed-oss-36b": ("ByteDance-Seed/Seed-OSS-36B-Instruct", "seed_oss", 5120, 27648, 64, 80, 8, 155136, 524288, 1e7, 1e-6, False, SEED_OSS),
    "gemma-2b": ("google/gemma-2b", "gemma", 2048, 16384, 18, 8, 1, 256000, 8192, 1e4, 1e-6, True, GEMMA),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-v0.1", "mixtral", 4096, 14336, 32, 32, 8, 32000, 32768, 1e6, 1e-5, False, {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}),
    "qwen3-30b-a3b": ("Qwen/Qwen3-30B-A3B", "qwen3_moe", 2048, 6144, 48, 32, 4, 151936, 40960, 1e6, 1e-6, False, HEAD128 | experts(128, 8, 768, norm_topk_prob=True)),
    "qwen3-235b-a22b": ("Qwen/Qwen3-235B-A22B", "qwen3_moe", 4096, 12288, 94, 64, 4, 151936, 40960, 1e6, 1e-6, False, HEAD128 | experts(128, 8, 1536, norm_topk_prob=True)),
    "qwen3-next-80b-a3b": ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3_next", 2048, 5120, 48, 16, 2, 151936, 262144, 1e7, 1e-6, False, QWEN3_NEXT | experts(512, 10, 512)),
    "olmoe-1b-7b": ("allenai/OLMoE-1B-7B-0924", "olmoe", 2048, 1024, 16, 16, 16, 50304, 4096, 1e4, 1e-5, False, {"num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": False}),
    "gpt-oss-20b": ("openai/gpt-oss-20b", "gpt_oss", 2880, 2880, 24, 64, 8, 201088, 131072, 15e4, 1e-5, False, gpt_oss(24, 32)),
    "gpt-oss-120b": ("openai/gpt-oss-120b", "gpt_oss", 2880, 2880, 36, 64, 8, 201088, 131072, 15e4, 1e-5, False, gpt_oss(36, 128)),
    "deepseek-v2-lite": ("deepseek-ai/DeepSeek-V2-Lite", "deepseek_v2", 2048, 10944, 27, 16, 16, 102400, 163840, 1e4, 1e-6, False, latent(None, 128, 128) | routed(64, 6, 1408, 2, topk_method="greedy", norm_topk_prob=False, routed_scaling_factor=1.0) | DEEPSEEK_YARN),
    "glm-4.7-flash": ("zai-org/GLM-4.7-Flash", "glm4_moe_lite", 2048, 10240, 47, 20, 20, 154880, 202752, 1e6, 1e-5, False, latent(768, 192, 256) | routed(64, 4, 1536, 1, norm_topk_prob=True, routed_scaling_factor=1.8)),
    "glm-4.5-air": ("zai-org/GLM-4.5-Air", "glm4_moe", 4096, 10944, 46, 96, 8, 151552, 131072, 1e6, 1e-5, False, HEAD128 | routed(128, 8, 1408, 1, norm_topk_prob=True, routed_scaling_factor=1.0) | {"attention_bias": True, "use_qk_norm": False, "partial_rotary_factor": 0.5}),
    "trinity-mini": ("arcee-ai/Trinity-Mini", "afmoe", 2048, 6144, 32, 32, 4, 200192, 131072, 1e4, 1e-5, False, TRINITY | experts(128, 8, 1024)),
    "granite-4.0-h-micro": ("ibm-granite/granite-4.0-h-micro", "granitemoehybrid", 2048, 8192, 40, 32, 8, 100352, 131072, 1e4, 1e-5, True, granite4((5, 15, 25, 35), 8, 0.015625, 64, 8192, 0, 0)),
    "granite-4.0-h-tiny": ("ibm-granite/granite-4.0-h-tiny", "granitemoehybrid", 1536, 512, 40, 12, 4, 100352, 131072, 1e4, 1e-5, True, granite4((5, 15, 25, 35), 6, 0.0078125, 48, 1024, 64, 6)),
    "granite-4.0-h-small": ("ibm-granite/granite-4.0-h-small", "granitemoehybrid", 4096, 768, 40, 32, 8, 100352, 131072, 1e4, 1e-5, True, granite4((5, 15, 25, 35), 16, 0.0078125, 128, 1536, 72, 10)),
    "nemotron-nano-9b-v2": ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron_h", 4480, 15680, 56, 40, 8, 131072, 131072, 1e4, 1e-5, False, nemotron_h(NANO2, 128, 80)),
    "nemotron-3-nano-30b-a3b": ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron_h", 2688, 1856, 52, 32, 2, 131072, 262144, 1e4, 1e-5, False, nemotron_h(NANO3, 64, 64, n_routed_experts=128, num_experts_per_tok=6, moe_intermediate_size=1856, n_shared_experts=1, moe_shared_expert_intermediate_size=3712, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5)),
    "lfm2-1.2b": ("LiquidAI/LFM2-1.2B", "lfm2", 2048, 12288, 16, 32, 8, 65536, 128000, 1e6, 1e-5, True, lfm2((2, 5, 8, 10, 12, 14), 16, block_ff_dim=12288, block_multiple_of=256, block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True)),
    "lfm2-8b-a1b": ("LiquidAI/LFM2-8B-A1B", "lfm2_moe", 2048, 7168, 24, 32, 8, 65536, 128000, 1e6, 1e-5, True, lfm2((2, 6, 10, 14, 18, 21), 24) | experts(32, 4, 1792, num_dense_layers=2, norm_topk_prob=True, use_expert_bias=True, routed_scaling_factor=1.0)),
    "gemma-7b": ("google/gemma-7b", "gemma", 3072, 24576, 28, 16, 16, 256000, 8192, 1e4, 1e-6, True, GEMMA),
}
# name: (hub id, heads of 128, ffn_dim, layers, channels in and out, width of image features). Of Wan 2.2's A14B one of its two transformers.
WANS = {
    "wan2.1-t2v-1.3b": ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 12, 8960, 30, 16, 16, None),
    "wan2.1-t2v-14b": ("Wan-AI/Wan2.1-T2V-14B-Diffusers", 40, 13824, 40, 16, 16, None),
    "wan2.1-i2v-14b": ("Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", 40, 13824, 40, 36, 16, 1280),
    "wan2.2-ti2v-5b": ("Wan-AI/Wan2.2-TI2V-5B-Diffusers", 24, 14336, 30, 48, 48, None),
    "wan2.2-t2v-a14b": ("Wan-AI/Wan2.2-T2V-A14B-Diffusers", 40, 13824, 40, 16, 16, None),
}
CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
           "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "phi3": "Phi3ForCausalLM",
           "glm4": "Glm4ForCausalLM", "granite": "GraniteForCausalLM", "smollm3": "SmolLM3ForCausalLM", "olmo2": "Olmo2ForCausalLM",
           "mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "qwen3_next": "Qwen3NextForCausalLM", "olmoe": "OlmoeForCausalLM",
           "gpt_oss": "GptOssForCausalLM", "deepseek_v2": "DeepseekV2ForCausalLM", "glm4_moe": "Glm4MoeForCausalLM",
           "glm4_moe_lite": "Glm4MoeLiteForCausalLM", "afmoe": "AfmoeForCausalLM", "granitemoehybrid": "GraniteMoeHybridForCausalLM",
           "nemotron_h": "NemotronHForCausalLM", "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM",
           "seed_oss": "SeedOssForCausalLM", "gemma": "GemmaForCausalLM", "cohere2": "Cohere2ForCausalLM"}


def of_model(hub, kind, hidden, inner, layers, heads, kv, vocab, longest, theta, eps, tied, more):
    return {
        "_name_or_path": hub,
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "max_position_embeddings": longest,
        "rope_theta": float(theta),
        "layer_norm_eps" if kind == "cohere2" else "rms_norm_eps": eps,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
    } | more


def of_wan(hub, heads, inner, layers, channels_in, channels_out, image):
    return {
        "_class_name": "WanTransformer3DModel",
        "_name_or_path": hub,
        "added_kv_proj_dim": heads * 128 if image else None,
        "attention_head_dim": 128,
        "cross_attn_norm": True,
        "eps": 1e-06,
        "ffn_dim": inner,
        "freq_dim": 256,
        "image_dim": image,
        "in_channels": channels_in,
        "num_attention_heads": heads,
        "num_layers": layers,
        "out_channels": channels_out,
        "patch_size": [1, 2, 2],
        "pos_embed_seq_len": None,
        "qk_norm": "rms_norm_across_heads",
        "rope_max_seq_len": 1024,
        "text_dim": 4096,
    }


def files():
    for name, figures in GPUS.items():
        yield FOLDER / f"{name}.json", of_gpu(*figures)
    for name, figures in OLDER_GPUS.items():
        yield FOLDER / f"{name}.json", of_older_gpu(*figures)
    for chip, sizes in MACS.items():
        for gb in sizes:
            yield FOLDER / f"mac-{chip.lower().replace(' ', '-')}-{gb}gb.json", of_mac(chip, gb)
    for name, figures in CPUS.items():
        yield FOLDER / f"{name}.json", of_cpu(*figures)
    for name, figures in MODELS.items():
        yield FOLDER / "models" / f"{name}.json", of_model(*figures)
    for name, figures in WANS.items():
        yield FOLDER / "models" / f"{name}.json", of_wan(*figures)


def main():
    wrong = []
    for path, content in files():
        text = json.dumps(content, indent=2) + "\n"
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                wrong.append(path)
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    if wrong:
        sys.exit("[machines] expected the files of the tables, got others: " + ", ".join(p.name for p in wrong) +
                 "; run tools/make_machines.py")


if __name__ == "__main__":
    main()
