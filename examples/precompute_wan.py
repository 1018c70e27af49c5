#!/usr/bin/env python3
"""Rows for Spillway out of videos: the mean of the VAE's posterior, and the embedding of the caption.

    pip install torch diffusers transformers ftfy safetensors imageio imageio-ffmpeg
    python precompute_wan.py Wan-AI/Wan2.1-T2V-1.3B-Diffusers videos/ rows/    # videos/x.mp4 beside videos/x.txt
"""

import sys
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, WanPipeline
from diffusers.utils import load_video
from safetensors.torch import save_file

model, videos, rows = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
device = "cuda" if torch.cuda.is_available() else "cpu"
vae = AutoencoderKLWan.from_pretrained(model, subfolder="vae", torch_dtype=torch.float32).to(device)
pipe = WanPipeline.from_pretrained(model, vae=None, transformer=None, torch_dtype=torch.bfloat16).to(device)
rows.mkdir(parents=True, exist_ok=True)
for path in sorted(videos.glob("*.mp4")):
    frames = load_video(str(path))[:77]  # 4 n + 1 of them; rows and columns are multiples of 16
    pixels = pipe.video_processor.preprocess_video(frames, height=480, width=832).to(device, torch.float32)
    caption = path.with_suffix(".txt").read_text().strip()
    with torch.no_grad():
        latents = vae.encode(pixels).latent_dist.mean[0]
        text, _ = pipe.encode_prompt(caption, do_classifier_free_guidance=False)
    text = text[0, :text[0].abs().sum(-1).nonzero().max() + 1]  # without padding
    save_file({"latents": latents.cpu().contiguous(), "text_embedding": text.cpu().contiguous()},
              rows / f"{path.stem}.safetensors", {"caption": caption})
