#!/usr/bin/env python3
"""Rows for Spillway out of videos: the mean of the VAE's posterior, and the embedding of the caption.

    pip install torch diffusers transformers ftfy safetensors imageio imageio-ffmpeg
    python precompute_wan.py Wan-AI/Wan2.1-T2V-1.3B-Diffusers videos/ rows/    # videos/x.mp4 beside videos/x.txt
"""

import argparse
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, WanPipeline
from diffusers.utils import load_video
from safetensors.torch import save_file

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("videos", type=Path)
parser.add_argument("rows", type=Path)
parser.add_argument("--frames", type=int, default=77, help="at most so many of each video")
parser.add_argument("--height", type=int, default=480, help="a multiple of 16, as the width")
parser.add_argument("--width", type=int, default=832)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
vae = AutoencoderKLWan.from_pretrained(args.model, subfolder="vae", torch_dtype=torch.float32).to(device)
pipe = WanPipeline.from_pretrained(args.model, vae=None, transformer=None, torch_dtype=torch.bfloat16).to(device)
args.rows.mkdir(parents=True, exist_ok=True)
for path in sorted(args.videos.glob("*.mp4")):
    frames = load_video(str(path))[:args.frames]
    frames = frames[:(len(frames) - 1) // 4 * 4 + 1]  # a latent frame is four frames, the first one alone
    pixels = pipe.video_processor.preprocess_video(frames, height=args.height, width=args.width).to(device, torch.float32)
    caption = path.with_suffix(".txt").read_text(encoding="utf-8").strip()
    with torch.no_grad():
        latents = vae.encode(pixels).latent_dist.mean[0]
        text, _ = pipe.encode_prompt(caption, do_classifier_free_guidance=False)
    text = text[0, :text[0].abs().sum(-1).nonzero().max() + 1]  # without padding
    save_file({"latents": latents.cpu().contiguous(), "text_embedding": text.cpu().contiguous()},
              args.rows / f"{path.stem}.safetensors", {"caption": caption})
