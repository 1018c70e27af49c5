// Describes how a decoder turns its heads by their positions: what config.json says of it in the styles of transformers
// 4 and 5, and the angles that follow.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json_field.h"

namespace spillway {

struct Architecture;
struct DecoderConfig;

enum class RopeType : uint8_t { kDefault, kLinear, kLlama3, kYarn, kLongrope, kProportional };

// Rotary position embedding: the base and how the frequencies are stretched for longer contexts. Fields carry the names
// of config.json where they have one.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  // The share of a head that turns: its first elements; of proportional, the first ones of each half.
  double partial_rotary_factor = 1;
  double factor = 1.0;                           // linear, llama3, yarn, proportional
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  int64_t original_max_position_embeddings = 0;  // llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;          // yarn
  bool truncate = true;                          // yarn: the range of blended frequencies has whole bounds
  // longrope: what each frequency is divided by in sequences up to the original length, and in longer ones.
  std::vector<double> short_factor, long_factor;
  double attention_factor = 1;  // of cos and sin: yarn, longrope
  double mscale_all_dim = 0;    // yarn: attention_factor follows from it; 0: none
  // The pairs of elements that turn by time, by height and by width of an image; the positions of text are all three.
  std::vector<int64_t> mrope_section = {11, 11, 10};
  double llama_4_scaling_beta = 0;  // queries grow with the logarithm of their position; 0: they do not
};

// Reads the rope of all layers, or one for layers with a window and one for the others, into `config`, whose layers are
// there. Throws InputError for what is malformed or not known.
void read_ropes(const JsonField& json, const Architecture& architecture, DecoderConfig& config);

// Returns the number of elements of a head that are rotated, some of them perhaps by 0: even, and at least 2.
[[nodiscard]] int64_t rotary_size(const RopeConfig& rope, int64_t head_dim);

// The angle that each pair of elements turns a position: f32 [rotary_size / 2], as transformers computes it. `is_long`:
// of sequences longer than the original length, which only longrope tells apart.
[[nodiscard]] std::vector<float> rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim,
                                                          bool is_long = false);

}  // namespace spillway
