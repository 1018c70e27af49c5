// config.json of diffusers' WanTransformer3DModel: Wan 2.1, and each transformer of Wan 2.2.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace spillway {

struct WanConfig {
  std::array<int64_t, 3> patch_size = {1, 2, 2};  // frames, rows, columns
  int64_t num_attention_heads = 40, attention_head_dim = 128;
  int64_t in_channels = 16, out_channels = 16;
  int64_t text_dim = 4096;
  int64_t freq_dim = 256;  // of a timestep's embedding
  int64_t ffn_dim = 13824;
  int64_t num_layers = 40;
  bool cross_attn_norm = true;
  double eps = 1e-6;
  int64_t image_dim = 0;          // of the features of an image; 0: there are none
  int64_t added_kv_proj_dim = 0;  // of its keys and values' input: the width, or 0
  int64_t rope_max_seq_len = 1024;

  [[nodiscard]] int64_t width() const { return num_attention_heads * attention_head_dim; }
  [[nodiscard]] int64_t patch_elems() const { return patch_size[0] * patch_size[1] * patch_size[2]; }
};

// `where` names the file in errors. Throws InputError for another class of model, for impossible sizes, and for keys
// whose meaning is not implemented.
[[nodiscard]] WanConfig parse_wan_config(std::string_view json, std::string_view where);

// Returns true if the folder has the config.json of a diffusers model.
[[nodiscard]] bool is_diffusers_folder(const std::filesystem::path& folder);

// Reads FOLDER/config.json.
[[nodiscard]] WanConfig read_wan_config(const std::filesystem::path& folder, std::string_view overrides = {});

}  // namespace spillway
