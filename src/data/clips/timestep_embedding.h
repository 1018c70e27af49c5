// The embedding of timesteps for diffusion transformers: sinusoids as for positions in the Transformer (Vaswani et al.,
// 2017), in the form of diffusers' Timesteps for Wan.
#pragma once

#include <span>

namespace spillway::data {

// Fills out [timesteps, size]: row r holds cos(t f_i), then sin(t f_i), for t = timesteps[r] and f_i = 10000^(-i /
// (size / 2)), i < size / 2. Computed in f64 and rounded once. REQUIRES: size is even and above 0; out has timesteps *
// size numbers.
void fill_timestep_embedding(std::span<const float> timesteps, int size, std::span<float> out);

}  // namespace spillway::data
