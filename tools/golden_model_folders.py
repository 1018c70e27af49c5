"""Writes tiny random models as folders in the styles that the hub has, and loads them as transformers reads them."""

import json
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from golden_training import as_in_files

# The folders for which transformers writes the experts' projections one by one, though those of the hub stack them.
STACKED_HERE = {"qwen3_5_moe"}
# Models whose linear layers and experts are FP8 in files: (blocks or None for a scale for each tensor, their scales' dtype).
FP8 = {"qwen3_fp8": ((8, 16), torch.float32), "qwen3_moe_fp8": ((4, 16), torch.bfloat16), "ministral3_fp8": (None, torch.bfloat16)}
# Models whose experts are mxfp4 in files; the values of its codes.
MXFP4 = {"gpt_oss_mxfp4"}
FP4_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def randomise(model, seed):
    """Makes what the initialisation leaves at 0 or 1 (norms, biases) matter. Gemma's norms add their 1 themselves."""
    generator = torch.Generator().manual_seed(seed)
    kind = model.config.model_type
    around_zero = (kind.startswith(("gemma", "qwen3_next", "qwen3_5")) and not kind.startswith("gemma4")) or kind == "nemotron"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 or name.endswith("_proj_bias"):
                noise = torch.randn(parameter.shape, generator=generator) * 0.2
                is_own_scale = name.endswith(("linear_attn.norm.weight", "A_log"))
                parameter.copy_(noise if (around_zero and not is_own_scale) or name.endswith("bias") else 1 + noise)
            if parameter.dim() == 2 and name.endswith("A_log"):  # of Mamba, whose channels all start alike
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
            if kind.startswith("gemma4") and name.endswith("q_norm.weight"):
                parameter.mul_(0.25)  # nothing else keeps scores small, and so softmaxes from being a choice of one token
            if name.endswith("router.gate.weight"):  # AFMoE's start as zeros
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
        for name, buffer in model.named_buffers():
            if name.endswith(("e_score_correction_bias", "expert_bias")):
                buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.2)
            if name.endswith(("act_fn.beta", "act_fn.eps")):
                buffer.fill_(0.375 if name.endswith("beta") else -0.125)
            if name.endswith("layer_scalar"):
                buffer.copy_(1 + torch.randn(buffer.shape, generator=generator) * 0.2)


def write_config_in_style_of_4(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    part = rope.pop("partial_rotary_factor", 1.0)
    if part != 1.0:
        config["partial_rotary_factor"] = part
    if "original_max_position_embeddings" in config:  # Phi-3's files have it there alone
        rope.pop("original_max_position_embeddings", None)
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    if config["model_type"] == "qwen2_moe" and "num_local_experts" in config:
        config["num_experts"] = config.pop("num_local_experts")
    config["transformers_version"] = "4.46.0"
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_config_with_global_heads(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    (own,) = {json.dumps(layer) for layer in config.pop("per_layer_config").values()}
    own = json.loads(own)
    config["global_head_dim"] = own["head_dim"]
    config["num_global_key_value_heads"] = own.get("num_key_value_heads")
    del config["rope_parameters"]
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_config_with_pattern(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    types = config.pop("layers_block_type")
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
    config |= {"hybrid_override_pattern": "".join(letters[kind] for kind in types), "num_hidden_layers": len(types)}
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_model(folder, spec, seed):
    config, dtype, shard_size, style = spec
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, seed)
    model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard_size} if shard_size else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if style == 4:
        write_config_in_style_of_4(folder)
    if style == "global":
        write_config_with_global_heads(folder)
    if style == "pattern":
        write_config_with_pattern(folder)
    if folder.name in MXFP4:
        quantise_experts(folder)
    if folder.name in STACKED_HERE:
        stack_experts(folder)
    if folder.name in FP8:
        write_fp8(folder, *FP8[folder.name])


def to_fp8(weight, block, dtype):
    """Codes and scales [rows / block, columns / block] of a weight, or one scale."""
    rows, columns = block or weight.shape
    blocks = weight.float().reshape(weight.shape[0] // rows, rows, weight.shape[1] // columns, columns)
    scales = (blocks.abs().amax((1, 3), keepdim=True) / torch.finfo(torch.float8_e4m3fn).max).to(dtype)
    codes = (blocks / scales.float()).clamp(-448, 448).to(torch.float8_e4m3fn).reshape(weight.shape)
    return codes, scales.reshape(weight.shape[0] // rows, weight.shape[1] // columns) if block else scales.reshape(())


def write_fp8(folder, block, dtype):
    tensors = load_file(folder / "model.safetensors")
    for name in [n for n in tensors if n.endswith("_proj.weight")]:
        tensors[name], tensors[f"{name}_scale_inv"] = to_fp8(tensors[name], block, dtype)
        if block is None:
            tensors[name.removesuffix("weight") + "activation_scale"] = torch.tensor(0.0625, dtype=dtype)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text())
    dense = [n.removesuffix(".weight") for n in tensors if n.endswith(("lm_head.weight", "mlp.gate.weight"))]
    config["quantization_config"] = {"activation_scheme": "dynamic" if block else "static", "modules_to_not_convert": dense,
                                     "quant_method": "fp8", "weight_block_size": block}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def to_mxfp4(weight):
    """Blocks and scales of [experts, in, out] as gpt-oss's files have them: of the transposes, 32 of a row together."""
    rows = weight.float().transpose(1, 2)
    groups = rows.reshape(*rows.shape[:2], -1, 32)
    exponents = torch.floor(torch.log2(groups.abs().amax(-1, keepdim=True))) - 2  # 6 is the largest value
    distances = (groups.unsqueeze(-1) / torch.exp2(exponents).unsqueeze(-1) - torch.tensor(FP4_VALUES)).abs()
    codes = distances.argmin(-1).to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, (exponents.squeeze(-1) + 127).to(torch.uint8)


def quantise_experts(folder):
    tensors = load_file(folder / "model.safetensors")
    for name in [n for n in tensors if n.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = to_mxfp4(tensors.pop(name))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] = {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def stack_experts(folder):
    tensors, stacks = load_file(folder / "model.safetensors"), {}
    for name in [n for n in tensors if ".mlp.experts." in n]:
        stem, expert, kind, _ = name.rsplit(".", 3)
        stacks.setdefault(stem, {}).setdefault(kind, {})[int(expert)] = tensors.pop(name)
    for stem, kinds in stacks.items():
        gate, up, down = (torch.stack([kinds[kind][e] for e in sorted(kinds[kind])]) for kind in ("gate_proj", "up_proj", "down_proj"))
        tensors |= {f"{stem}.gate_up_proj": torch.cat([gate, up], 1).contiguous(), f"{stem}.down_proj": down}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def dequantised_fp8(folder):
    """Returns what transformers makes of the codes of a folder in bf16."""
    codes = {n.removesuffix("_scale_inv") for n in load_file(folder / "model.safetensors") if n.endswith("_scale_inv")}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    return {n: t.detach().contiguous() for n, t in as_in_files(model, dict(model.named_parameters())).items() if n in codes}


def dequantised(folder, to):
    """Writes to `to` the model whose experts are what transformers makes of blocks and scales."""
    to.mkdir()
    tensors = load_file(folder / "model.safetensors")
    for name in [n.removesuffix("_blocks") for n in tensors if n.endswith("_blocks")]:
        tensors[name] = convert_moe_packed_tensors(tensors.pop(f"{name}_blocks"), tensors.pop(f"{name}_scales")).contiguous()
    save_file(tensors, to / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (to / "config.json").write_text(json.dumps(config))
    return to


def load(folder, **overrides):
    """`overrides` replace keys of config.json before the model is made."""
    if folder.name in MXFP4:
        with tempfile.TemporaryDirectory() as other:
            return load(dequantised(folder, Path(other) / "dense"), **overrides)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **overrides)
    for name, parameter in model.named_parameters():
        if name.endswith(".expert_bias"):  # AFMoE's, which its class makes untrained and loading trained, without a gradient
            parameter.requires_grad_(False)
    return model.eval()
