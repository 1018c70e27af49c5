#include "model/gguf/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/error.h"
#include "base/text.h"

namespace spillway {
namespace {

constexpr GgufFileType kTypes[] = {
    {"f32", GgufType::kF32, 0},    {"f16", GgufType::kF16, 1},
    {"q8_0", GgufType::kQ8_0, 7},  {"q4_k_m", GgufType::kQ4_K, 15, true},
    {"bf16", GgufType::kBF16, 32},
};

// Returns 12 for "blk.12.attn_v.weight".
int64_t layer_number(std::string_view name) {
  int64_t layer = 0;
  constexpr std::string_view kStart = "blk.";
  std::from_chars(name.data() + kStart.size(), name.data() + name.size(), layer);
  return layer;
}

bool has_more_bits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// Models of 70B have eight heads to a value, so that more bits for values cost little.
bool is_70b(const GgufModel& model) {
  const bool shares = model.architecture == "llama" && model.heads != model.kv_heads;
  return model.layers == 80 && (shares || model.architecture == "qwen2");
}

// Queries and keys in one matrix with values count as values.
bool holds_values(std::string_view name) {
  return name.ends_with(".attn_v.weight") || name.ends_with(".attn_qkv.weight");
}

// Returns the number of layers before this one in an ascending list.
int64_t place_of(int64_t layer, const std::vector<int64_t>& layers) {
  return std::lower_bound(layers.begin(), layers.end(), layer) - layers.begin();
}

// llama-quantize counts down projections, but goes by the layer in a model with experts.
int64_t place_of_down(int64_t layer, const GgufModel& model) {
  return model.experts > 1 ? layer : place_of(layer, model.down_layers);
}

GgufType for_rows(GgufType type, int64_t row) {
  if (row % layout_of(type).block_elems == 0) return type;
  const GgufType other = type == GgufType::kQ4_K   ? GgufType::kQ5_0
                         : type == GgufType::kQ5_K ? GgufType::kQ5_1
                                                   : GgufType::kQ8_0;
  return row % layout_of(other).block_elems == 0 ? other : GgufType::kF16;
}

}  // namespace

const GgufFileType& find_gguf_file_type(std::string_view name) {
  std::vector<std::string_view> names;
  for (const GgufFileType& type : kTypes) {
    if (type.name == name) return type;
    names.push_back(type.name);
  }
  const std::string_view near = nearest_name(name, names);
  throw input_error("--type", "expected {}, got {}; {}", joined_names(names), quote(name),
                    near.empty() ? "choose one of them" : fmt::format("did you mean {}?", near));
}

GgufType plain_tensor_type(const std::vector<int64_t>& shape, GgufType wanted) {
  if (shape.size() < 2) return GgufType::kF32;
  return shape.back() % layout_of(wanted).block_elems == 0 ? wanted : GgufType::kF16;
}

namespace {

GgufType type_in_mixture(std::string_view name, const GgufModel& model, GgufType usual) {
  // Attention of such a model is small beside its experts.
  constexpr int64_t kExpertsOfMixtral = 8;
  const bool is_like_mixtral = model.experts == kExpertsOfMixtral;
  if (model.tied ? name.ends_with("token_embd.weight") : name == "output.weight") return GgufType::kQ6_K;
  if (name == "per_layer_model_proj.weight") return GgufType::kF32;  // llama-quantize leaves it as it is
  if (!name.starts_with("blk.")) return usual;
  if (is_like_mixtral && (name.ends_with(".attn_v.weight") || name.ends_with(".attn_k.weight"))) return GgufType::kQ8_0;
  if (is_like_mixtral && name.ends_with(".attn_output.weight")) return GgufType::kQ5_K;
  const bool is_down = name.find(".ffn_down") != std::string_view::npos;  // of experts, too
  if (!is_down && !holds_values(name)) return usual;
  const int64_t layer = layer_number(name);
  const bool matters = is_down ? has_more_bits(place_of_down(layer, model), model.layers)
                               : has_more_bits(place_of(layer, model.value_layers), std::ssize(model.value_layers));
  if (matters) return GgufType::kQ6_K;
  return is_70b(model) && !is_down ? GgufType::kQ5_K : usual;
}

}  // namespace

GgufType tensor_type(const GgufWeight& weight, const GgufModel& model, const GgufFileType& file) {
  if (weight.is_f32) return GgufType::kF32;
  if (!file.is_mixture || weight.shape.size() < 2) return plain_tensor_type(weight.shape, file.type);
  return for_rows(type_in_mixture(weight.gguf, model, file.type), weight.shape.back());
}

}  // namespace spillway
