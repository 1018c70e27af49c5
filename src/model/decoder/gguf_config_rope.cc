// The rope of a decoder, from the metadata of a GGUF file.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/sizes.h"
#include "base/text.h"
#include "model/decoder/gguf_config_maker.h"

namespace spillway {
namespace {

// Returns the factors by which Llama 3.1 and later divide their frequencies, from the numbers that config.json has.
std::vector<double> llama3_factors(double theta, int64_t head_dim, double factor, double low, double high,
                                   double original) {
  std::vector<double> factors;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(theta, 2 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    factors.push_back(1 / ((1 - smooth) / factor + smooth));
  }
  return factors;
}

}  // namespace

std::vector<double> GgufConfigMaker::factors(std::string_view name) const {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr || tensor->shape.size() != 1) refuse(name, "as a list of factors", "none");
  auto stored = make_vector<float>(tensor->elems());
  file_.read_rows(*tensor, 0, 1, stored.data());
  std::vector<double> result;
  for (const float value : stored) result.push_back(shortest_number(value));
  return result;
}

// GGUF keeps the factors themselves in a tensor. They are turned back into the numbers by which all released Llama 3
// models made them, and compared.
GgufConfigMaker::Json GgufConfigMaker::llama3_scaling(const GgufTensor& tensor, double theta) const {
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192, kTolerance = 1e-3;
  if (tensor.shape != std::vector<int64_t>{head_dim_ / 2})
    refuse("rope_freqs.weight", "of head_dim / 2 values", "another shape");
  const std::vector<double> stored = factors("rope_freqs.weight");
  const double factor = *std::max_element(stored.begin(), stored.end());
  if (factor == 1.0) return nullptr;
  const std::vector<double> expected = llama3_factors(theta, head_dim_, factor, kLow, kHigh, kOriginal);
  for (size_t i = 0; i < stored.size(); ++i) {
    if (std::abs(stored[i] - expected[i]) > kTolerance * expected[i])
      refuse("rope_freqs.weight", "as Llama 3.1 has it", fmt::format("{} as value {}", stored[i], i));
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", static_cast<int64_t>(kOriginal)}};
}

GgufConfigMaker::Json GgufConfigMaker::longrope_scaling() const {
  Json result = {{"rope_type", "longrope"},
                 {"type", "longrope"},
                 {"short_factor", factors("rope_factors_short.weight")},
                 {"long_factor", factors("rope_factors_long.weight")}};
  if (const double* factor = find_real("rope.scaling.attn_factor"))
    result["attention_factor"] = shortest_number(*factor);
  return result;
}

// The elements that do not turn are divided by a number so large that their angle is 0.
GgufConfigMaker::Json GgufConfigMaker::proportional_scaling() const {
  const std::vector<double> stored = factors("rope_freqs.weight");
  const auto turning = std::ranges::count(stored, 1.0);
  if (std::any_of(stored.begin() + turning, stored.end(), [](double factor) { return factor < 1e30; }))
    refuse("rope_freqs.weight", "to have ones and then 1e30", "others");
  return {{"rope_type", "proportional"},
          {"partial_rotary_factor", static_cast<double>(turning) / static_cast<double>(stored.size())}};
}

// llama.cpp multiplies by the factor whatever the scaling is; config.json has one for longrope, and one of another
// meaning for YaRN.
void GgufConfigMaker::check_attention_factor() const {
  const double factor = real_or("rope.scaling.attn_factor", 1);
  if (factor != 1) refuse(key_of("rope.scaling.attn_factor"), "to be 1", fmt::format("{}", factor));
}

GgufConfigMaker::Json GgufConfigMaker::scaling(double theta) const {
  if (const GgufTensor* tensor = file_.find_tensor("rope_freqs.weight");
      tensor != nullptr && family_.rope.reads_factors)
    return llama3_scaling(*tensor, theta);
  if (family_.rope.reads_longrope && file_.find_tensor("rope_factors_long.weight") != nullptr)
    return longrope_scaling();
  check_attention_factor();
  const double* linear = find_real("rope.scale_linear");  // an older name
  const std::string* type = file_.find<std::string>(key_of("rope.scaling.type"));
  const double* factor = find_real("rope.scaling.factor");
  if (type == nullptr && linear != nullptr && *linear != 1.0)
    return {{"rope_type", "linear"}, {"factor", shortest_number(*linear)}};
  if (type == nullptr || *type == "none" || factor == nullptr || *factor == 0.0 || *factor == 1.0) return nullptr;
  if (*type != "linear" && *type != "yarn")
    refuse(key_of("rope.scaling.type"), "to be none, linear or yarn", quote(*type));
  Json result = {{"rope_type", *type}, {"factor", shortest_number(*factor)}};
  if (*type == "linear") return result;
  result["original_max_position_embeddings"] =
      positive_or("rope.scaling.original_context_length", positive("context_length"));
  if (family_.rope.has_real_yarn_bounds) result["truncate"] = false;
  if (family_.rope.reads_yarn_betas) {
    result["beta_fast"] = real_or("rope.scaling.yarn_beta_fast", 32);
    result["beta_slow"] = real_or("rope.scaling.yarn_beta_slow", 1);
  }
  const double of_all = real_or("rope.scaling.yarn_log_multiplier", 0);
  if (config_.contains("kv_lora_rank")) {
    constexpr double kPerMscale = 0.1;  // of latent attention the file has mscale_all_dim times this
    result["mscale"] = result["mscale_all_dim"] = shortest_number(of_all / kPerMscale);
  } else if (architecture_.rope.scales_queries) {
    result["mscale"] = 1.0;
    result["mscale_all_dim"] = of_all;
  }
  if (architecture_.rope.scales_queries) result["llama_4_scaling_beta"] = real_or("attention.temperature_scale", 0);
  return result;
}

void GgufConfigMaker::add_sections(Json& rope) const {
  const std::vector<int64_t>* sections = find_list("rope.dimension_sections");
  if (!family_.rope.has_sections || sections == nullptr || sections->size() < 3) return;
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["mrope_interleaved"] = true;
  rope["mrope_section"] = std::vector<int64_t>(sections->begin(), sections->begin() + 3);
}

void GgufConfigMaker::add_rope() {
  if (family_.rope.is_absent) return;
  const double theta = real_or("rope.freq_base", 10000);
  Json scaled = scaling(theta);
  if (architecture_.rope.is_partial) {
    const int64_t size = positive_or("rope.dimension_count", head_dim_);
    config_["partial_rotary_factor"] = static_cast<double>(size) / static_cast<double>(head_dim_);
    if (architecture_.rope.has_rotary_dim) config_["rotary_dim"] = size;
  }
  if (architecture_.rope.only_knows_longrope) {
    config_["original_max_position_embeddings"] =
        positive_or("rope.scaling.original_context_length", positive("context_length"));
  }
  add_sections(scaled);
  // Transformers adds the share of a head that turns to rope_parameters alone.
  if (architecture_.rope.part_is_of_head) {
    if (scaled.is_null()) scaled = {{"rope_type", "default"}};
    scaled["rope_theta"] = theta;
    config_["rope_parameters"] = std::move(scaled);
    return;
  }
  if (family_.rope.local_base == GgufLocalBase::kUnwritten) {
    config_["rope_scaling"] = std::move(scaled);
    config_["rope_theta"] = theta;
    return;
  }
  if (family_.rope.reads_proportion) scaled = proportional_scaling();
  const bool is_same = family_.rope.local_base == GgufLocalBase::kSame;
  if (scaled.is_null()) scaled = {{"rope_type", "default"}};
  scaled["rope_theta"] = theta;
  const double local = is_same ? theta : real_or("rope.freq_base_swa", 10000);
  config_["rope_parameters"] = {{"full_attention", std::move(scaled)},
                                {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

}  // namespace spillway
