#!/usr/bin/env python3
"""Writes tests/golden/video: tiny random Wans in diffusers' folders, clips, and what diffusers, torch and peft make of
them.

    pip install torch diffusers peft safetensors     # made with torch 2.15, diffusers 0.42, peft 0.21
    python tools/make_video_goldens.py tests/golden/video

All is float32 on the CPU. A row carries its own noise and timestep, in normalised units, so that both sides see the
same. Rows are trained on in the order of their files, ROWS of them, two a micro-batch, two micro-batches a step.

    NAME/model_index.json, NAME/transformer/, NAME/vae/config.json     the pipeline's folder, as far as training reads it
    NAME/clips/00.safetensors ...        latents, text_embedding, noise, timestep; of image to video clip_feature and
                                         first_frame_latent
    NAME/lora/                           diffusers' save_lora_weights: where training of LoRA begins
    NAME/golden.json                     "loss", "grad_norm" of the first step; "full", "lora": {"losses", "grad_norms"};
                                         "clip_losses" of the untrained model; "sample": see NAME/sample.safetensors
    NAME/golden_full.safetensors, NAME/golden_lora.safetensors         weights after training
    NAME/sample.safetensors              "noise", "text_embedding", "negative_embedding" and "latents": Euler, 4 steps
    two/                                 a pipeline of two transformers, and what diffusers' WanPipeline samples with it;
                                         "latents_unguided_2": the second's guidance is 1
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
from diffusers.loaders import WanLoraLoaderMixin
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file, save_file

ROWS, STEPS, TEXT_LEN, IMAGE_TOKENS = 8, 10, 6, 257
BATCH, ACCUMULATION = 2, 2
LEARNING_RATE, DECAY, CLIP = 3e-3, 0.05, 1.0
BOUNDARY = 0.8  # of the pipeline of two transformers
FULL_KEPT = {"t2v"}  # whose weights after training are kept whole

SMALL = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4,
             text_dim=10, freq_dim=16, ffn_dim=40, num_layers=2, cross_attn_norm=True, rope_max_seq_len=32)
MODELS = {
    # name: (config, shapes of the latents, precondition_outputs, targets of LoRA)
    "t2v": (SMALL, [(4, 3, 4, 6), (4, 1, 6, 4), (4, 2, 4, 4)], False, ["to_q", "to_k", "to_v", "to_out.0"]),
    "i2v": ({**SMALL, "in_channels": 9, "image_dim": 14, "added_kv_proj_dim": 24}, [(4, 2, 4, 4), (4, 3, 2, 4)], False,
            ["to_q", "add_k_proj", "ffn.net.0.proj", "ffn.net.2"]),
    # Odd widths: three heads of 14, patches of two frames.
    "odd": ({**SMALL, "num_attention_heads": 3, "attention_head_dim": 14, "cross_attn_norm": False,
             "patch_size": (2, 1, 3), "in_channels": 3, "out_channels": 3, "ffn_dim": 27, "freq_dim": 18},
            [(3, 4, 2, 6), (3, 2, 3, 3)], True, ["to_q", "to_k", "to_v", "to_out.0", "ffn.net.0.proj", "ffn.net.2"]),
}


def make_model(config, generator):
    model = WanTransformer3DModel(**config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.3 if p.dim() > 1 else 0.1
            values = torch.randn(p.shape, generator=generator) * scale / (p[0].numel() ** 0.5 if p.dim() > 1 else 1)
            p.copy_(values + (1 if "norm" in name and name.endswith("weight") else 0))
    return model


def make_rows(folder, config, shapes, generator):
    folder.mkdir(parents=True)
    rows = []
    for i in range(ROWS):
        shape = shapes[i % len(shapes)]
        text = torch.randn(2 + i % (TEXT_LEN + 1), config["text_dim"], generator=generator)
        row = {"latents": torch.randn(shape, generator=generator) * 2 + 0.5, "text_embedding": text,
               "noise": torch.randn(shape, generator=generator),
               "timestep": torch.rand(1, generator=generator) * 900 + 50}
        if config.get("image_dim"):
            row["clip_feature"] = torch.randn(IMAGE_TOKENS, config["image_dim"], generator=generator)
            row["first_frame_latent"] = torch.randn(config["in_channels"] - config["out_channels"], *shape[1:],
                                                    generator=generator)
        save_file(row, folder / f"{i:02d}.safetensors")
        rows.append(row)
    return rows


def predict(model, row, latents, timestep, text):
    """The model's answer for one clip, whose text is padded with zeros or cut."""
    padded = torch.zeros(1, 512 if model.config.image_dim else TEXT_LEN, text.shape[1])
    count = min(len(text), padded.shape[1])
    padded[0, :count] = text[:count]
    image = None
    if model.config.image_dim:
        latents = torch.cat([latents, row["first_frame_latent"]])
        image = row["clip_feature"][None]
    return model(hidden_states=latents[None], timestep=timestep.reshape(1), encoder_hidden_states=padded,
                 encoder_hidden_states_image=image, return_dict=False)[0][0]


def clip_loss(model, row, mean, std, preconditions):
    z = (row["latents"] - mean[:, None, None, None]) * (1 / std)[:, None, None, None]
    sigma = row["timestep"] / 1000
    x = (1 - sigma) * z + sigma * row["noise"]
    prediction = predict(model, row, x, row["timestep"], row["text_embedding"])
    if preconditions:
        return ((x - sigma * prediction - z) ** 2).mean()
    return ((prediction - (row["noise"] - z)) ** 2).mean()


def train(model, rows, mean, std, preconditions):
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    plain = [p for n, p in trained if p.dim() == 1 or "scale_shift_table" in n]
    others = [p for n, p in trained if not (p.dim() == 1 or "scale_shift_table" in n)]
    optimizer = torch.optim.AdamW([{"params": others, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0}],
                                  lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8)
    per_step = BATCH * ACCUMULATION
    losses, norms = [], []
    for step in range(STEPS):
        first = step * per_step % len(rows)
        optimizer.zero_grad()
        losses.append(0.0)
        for row in rows[first:first + per_step]:
            loss = clip_loss(model, row, mean, std, preconditions) / per_step
            loss.backward()
            losses[-1] += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_([p for _, p in trained], CLIP).item())
        optimizer.step()
    return {"losses": losses, "grad_norms": norms}


def sample(model, row, text, negative, noise, guidance=2.5, steps=4, shift=3.0):
    scheduler = FlowMatchEulerDiscreteScheduler(shift=shift)
    scheduler.set_timesteps(steps)
    x = noise
    with torch.no_grad():
        for t in scheduler.timesteps:
            told = predict(model, row, x, t, text)
            untold = predict(model, row, x, t, negative)
            x = scheduler.step(untold + guidance * (told - untold), t, x, return_dict=False)[0]
    return x


def write_lora(folder, model):
    # Not zero, so that all factors have a gradient from the first step on.
    WanLoraLoaderMixin.save_lora_weights(
        str(folder), transformer_lora_layers=get_peft_model_state_dict(model),
        transformer_lora_adapter_metadata=model.peft_config["default"].to_dict())


def make(folder, name):
    config, shapes, preconditions, targets = MODELS[name]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_model(config, generator).save_pretrained(folder / "transformer")
    (folder / "model_index.json").write_text('{"_class_name": "WanPipeline", "transformer": ["diffusers", '
                                             '"WanTransformer3DModel"]}\n')
    channels = config["out_channels"]
    mean, std = torch.randn(channels, generator=generator), torch.rand(channels, generator=generator) + 0.5
    (folder / "vae").mkdir()
    (folder / "vae" / "config.json").write_text(json.dumps(
        {"_class_name": "AutoencoderKLWan", "z_dim": channels, "latents_mean": mean.tolist(),
         "latents_std": std.tolist()}) + "\n")
    rows = make_rows(folder / "clips", config, shapes, generator)

    load = lambda: WanTransformer3DModel.from_pretrained(folder / "transformer")
    golden = {"preconditions": preconditions, "targets": targets}
    model = load()
    with torch.no_grad():
        golden["clip_losses"] = [clip_loss(model, row, mean, std, preconditions).item() for row in rows]
    golden["full"] = train(model, rows, mean, std, preconditions)
    if name in FULL_KEPT:
        save_file({n: p.detach() for n, p in model.named_parameters()}, folder / "golden_full.safetensors")

    model = load()
    model.requires_grad_(False)
    model.add_adapter(LoraConfig(r=3, lora_alpha=5, target_modules=targets))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_" in n:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
    write_lora(folder / "lora", model)
    golden["lora"] = train(model, rows, mean, std, preconditions)
    save_file({f"transformer.{n}": p.detach().contiguous() for n, p in get_peft_model_state_dict(model).items()},
              folder / "golden_lora.safetensors")

    model = load()
    shape = shapes[0]
    # Has a shape that no row has where there is no image beside it.
    noise = torch.randn(shape, generator=generator)
    text, negative = torch.randn(4, config["text_dim"], generator=generator), torch.zeros(1, config["text_dim"])
    latents = sample(model, rows[0], text, negative, noise)
    images = {name: rows[0][name] for name in ("clip_feature", "first_frame_latent") if name in rows[0]}
    save_file({"noise": noise, "text_embedding": text, "negative_embedding": negative, "latents": latents, **images},
              folder / "sample.safetensors")
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(name, golden["full"]["losses"][0], golden["full"]["losses"][-1], golden["lora"]["losses"][-1])


def make_two(folder):
    """As Wan 2.2: one transformer for high noise levels, one for the others."""
    generator = torch.Generator().manual_seed(22)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    transformers = [make_model(SMALL, generator) for _ in range(2)]
    for model, name in zip(transformers, ["transformer", "transformer_2"]):
        model.save_pretrained(folder / name)
    (folder / "model_index.json").write_text(json.dumps(
        {"_class_name": "WanPipeline", "boundary_ratio": BOUNDARY,
         "transformer": ["diffusers", "WanTransformer3DModel"],
         "transformer_2": ["diffusers", "WanTransformer3DModel"]}) + "\n")
    pipeline = WanPipeline(tokenizer=None, text_encoder=None, vae=None, transformer=transformers[0],
                           transformer_2=transformers[1], boundary_ratio=BOUNDARY,
                           scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0))
    pipeline.set_progress_bar_config(disable=True)
    noise = torch.randn(4, 3, 4, 6, generator=generator)
    text, negative = (torch.randn(TEXT_LEN, SMALL["text_dim"], generator=generator) for _ in range(2))
    latents = {
        name: pipeline(prompt_embeds=text[None], negative_prompt_embeds=negative[None], latents=noise[None].clone(),
                       height=32, width=48, num_frames=9, num_inference_steps=6, guidance_scale=2.5,
                       guidance_scale_2=second, output_type="latent", return_dict=False)[0][0].contiguous()
        for name, second in [("latents", 1.5), ("latents_unguided_2", 1.0)]}
    save_file({"noise": noise, "text_embedding": text, "negative_embedding": negative, **latents},
              folder / "sample.safetensors")
    print("two", pipeline.scheduler.timesteps.tolist(), [z.std().item() for z in latents.values()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name in MODELS:
        make(folder / name, name)
    make_two(folder / "two")
