#include "model/dit/wan_config.h"

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/text.h"
#include "io/file.h"
#include "model/config_overrides.h"
#include "ops/axial_rope/axial_rope.h"

namespace spillway {
namespace {

constexpr int64_t kMaxWanConfigBytes = 4 * kMiB;

// Bounds far above any model of this kind, low enough that no product of sizes overflows.
constexpr int64_t kMaxWanWidth = int64_t{1} << 20;
constexpr int64_t kMaxWanLayers = 1024;
constexpr int64_t kMaxWanHeads = 4096;
constexpr int64_t kMaxChannels = 1 << 14;
constexpr int64_t kMaxPatch = 64;

constexpr std::string_view kClass = "WanTransformer3DModel";

// Throws InputError for keys that would silently change the numbers if they were ignored.
void refuse_unsupported_wan(const JsonField& json) {
  const std::string class_name = json["_class_name"].string_or("");
  if (class_name != kClass) {
    throw input_error(json.where(), "expected _class_name {}, got {}; other video transformers are not supported yet",
                      kClass, quote(class_name));
  }
  if (const std::string norm = json["qk_norm"].string_or("rms_norm_across_heads"); norm != "rms_norm_across_heads") {
    throw input_error(json.where(), "expected qk_norm rms_norm_across_heads, got {}; use a model with that norm",
                      quote(norm));
  }
  if (!json["pos_embed_seq_len"].is_null()) {
    throw input_error(json.where(),
                      "expected no pos_embed_seq_len, got one; models of a first and a last frame are not "
                      "supported yet");
  }
}

std::array<int64_t, 3> read_patch(const JsonField& json) {
  if (json.is_null()) return {1, 2, 2};
  const std::vector<int64_t> sizes = json.integers(1, kMaxPatch);
  if (sizes.size() != 3) throw json.bad("three sizes", "write frames, rows and columns of a patch");
  return {sizes[0], sizes[1], sizes[2]};
}

void read_image(const JsonField& json, WanConfig& config) {
  config.image_dim = json["image_dim"].integer_or(0, 1, kMaxWanWidth);
  config.added_kv_proj_dim = json["added_kv_proj_dim"].integer_or(0, 1, kMaxWanWidth);
  const int64_t wanted = config.image_dim == 0 ? 0 : config.width();
  if (config.added_kv_proj_dim != wanted) {
    throw input_error(json.where(),
                      "expected added_kv_proj_dim {} beside image_dim {} and heads of {} in all, got {}; "
                      "check these numbers",
                      wanted, config.image_dim, config.width(), config.added_kv_proj_dim);
  }
}

}  // namespace

WanConfig parse_wan_config(std::string_view text, std::string_view where) {
  const JsonDocument document(text, where);
  const JsonField json = document.root();
  refuse_unsupported_wan(json);
  WanConfig config;
  const auto size = [&](std::string_view key, int64_t usual, int64_t most) {
    return json[key].integer_or(usual, 1, most);
  };
  config.patch_size = read_patch(json["patch_size"]);
  config.num_attention_heads = size("num_attention_heads", config.num_attention_heads, kMaxWanHeads);
  config.attention_head_dim = size("attention_head_dim", config.attention_head_dim, ops::kMaxAxialHeadSize);
  config.in_channels = size("in_channels", config.in_channels, kMaxChannels);
  config.out_channels = json["out_channels"].integer_or(config.in_channels, 1, kMaxChannels);
  config.text_dim = size("text_dim", config.text_dim, kMaxWanWidth);
  config.freq_dim = size("freq_dim", config.freq_dim, kMaxWanWidth);
  config.ffn_dim = size("ffn_dim", config.ffn_dim, kMaxWanWidth);
  config.num_layers = size("num_layers", config.num_layers, kMaxWanLayers);
  config.cross_attn_norm = json["cross_attn_norm"].boolean_or(true);
  config.eps = json["eps"].real_or(config.eps, 0, 1);
  config.rope_max_seq_len = size("rope_max_seq_len", config.rope_max_seq_len, kMaxWanWidth);
  constexpr int64_t kSmallestHead = 6;  // two elements an axis
  for (const auto& [key, number, least] : {std::tuple{"attention_head_dim", config.attention_head_dim, kSmallestHead},
                                           {"freq_dim", config.freq_dim, int64_t{2}}}) {
    if (number % 2 != 0 || number < least)
      throw input_error(json.where(), "expected an even {} from {} on, got {}; check the number", key, least, number);
  }
  if (config.in_channels < config.out_channels) {
    throw input_error(json.where(), "expected at least as many in_channels as out_channels, got {} and {}; check both",
                      config.in_channels, config.out_channels);
  }
  read_image(json, config);
  return config;
}

bool is_diffusers_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const JsonDocument document(with_named_infinities(read_file(path, kMaxWanConfigBytes)), path.string());
  return document.root().has("_class_name");
}

WanConfig read_wan_config(const std::filesystem::path& folder, std::string_view overrides) {
  const std::filesystem::path path = folder / "config.json";
  const std::string where = path.string();
  return parse_wan_config(with_overrides(read_file(path, kMaxWanConfigBytes), overrides, where), where);
}

}  // namespace spillway
