#include "model/decoder/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/sliding_window.h"

namespace spillway {
namespace {

constexpr double kMinTheta = 1, kMaxTheta = 1e30;
constexpr double kMinFactor = 1e-6, kMaxFactor = 1e6;
constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";

// Returns true where `alpha` stretches the base, which transformers goes by if it is not 0.
bool has_stretched_base(const JsonField& rope, const Architecture& architecture) {
  return architecture.rope.stretches_base && rope["rope_type"].string_or(rope["type"].string_or("")) == "dynamic" &&
         rope["alpha"].real_or(0, 0, kMaxFactor) != 0;
}

RopeType rope_type_of(const JsonField& rope, const Architecture& architecture) {
  const std::string type = rope["rope_type"].string_or(rope["type"].string_or("default"));
  if (has_stretched_base(rope, architecture)) return RopeType::kDefault;
  if (type == "default") return RopeType::kDefault;
  // Phi-3's first files say "su", or "yarn".
  if (type == "longrope" || (architecture.rope.only_knows_longrope && (type == "su" || type == "yarn")))
    return RopeType::kLongrope;
  if (type == "linear") return RopeType::kLinear;
  if (type == "llama3") return RopeType::kLlama3;
  if (type == "yarn") return RopeType::kYarn;
  if (type == "proportional") return RopeType::kProportional;
  throw input_error(rope.where(),
                    "expected rope_type default, linear, llama3, yarn, longrope or proportional, got {}, which is not "
                    "supported; use a model without it",
                    quote(type));
}

// Where config.json is read from: all of it, and the object of one rope.
struct RopePlace {
  const JsonField& json;
  const JsonField& inner;
  const Architecture& architecture;
  const DecoderConfig& config;
  int64_t head_dim;  // of the layers that are rotated by it
};

// Returns the size of heads of the layers that have a window, or of the others; of the first layer where there are
// none. Throws InputError for layers of two sizes, which no rope fits.
int64_t head_dim_of(const JsonField& json, const DecoderConfig& config, bool has_window) {
  int64_t result = 0;
  for (const DecoderLayer& layer : config.layers) {
    const int64_t own = layer.attention.rope_dim();
    if ((layer.attention.window > 0) != has_window) continue;
    if (result != 0 && own != result) {
      throw input_error(json.where(), "expected heads of one size in all layers of a type, got {} and {}; check {}",
                        result, own, "per_layer_config");
    }
    result = own;
  }
  return result == 0 ? config.layers.front().attention.rope_dim() : result;
}

// The key beside the rope counts more, since transformers has it so for Phi-3.
int64_t original_positions(const RopePlace& place) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  const JsonField outer = place.json[kKey];
  return outer.is_null() ? place.inner[kKey].integer_or(place.config.max_position_embeddings, 1, kMaxPositions)
                         : outer.integer(1, kMaxPositions);
}

// Returns the factor; if none is given, how much longer sequences may be.
double stretch_of(const RopePlace& place, int64_t original) {
  const double longer = static_cast<double>(place.config.max_position_embeddings) / static_cast<double>(original);
  return place.inner["factor"].real_or(longer, kMinFactor, kMaxFactor);
}

void read_linear(const RopePlace& place, RopeConfig& rope) {
  rope.factor = place.inner["factor"].real(kMinFactor, kMaxFactor);
}

void read_llama3(const RopePlace& place, RopeConfig& rope) {
  rope.factor = place.inner["factor"].real(kMinFactor, kMaxFactor);
  rope.low_freq_factor = place.inner["low_freq_factor"].real(kMinFactor, kMaxFactor);
  rope.high_freq_factor = place.inner["high_freq_factor"].real(kMinFactor, kMaxFactor);
  rope.original_max_position_embeddings = original_positions(place);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    throw input_error(place.inner.where(),
                      "expected high_freq_factor above low_freq_factor, got {} and {}; check both numbers",
                      rope.high_freq_factor, rope.low_freq_factor);
  }
}

// 0 counts as absent, as in transformers.
double number_or(const JsonField& field, double otherwise) {
  const double number = field.real_or(0, 0, kMaxFactor);
  return number == 0 ? otherwise : number;
}

// Peng et al., YaRN, 2023; what the factor of attention is follows transformers.
void read_yarn(const RopePlace& place, RopeConfig& rope) {
  rope.original_max_position_embeddings = original_positions(place);
  rope.factor = stretch_of(place, rope.original_max_position_embeddings);
  rope.beta_fast = number_or(place.inner["beta_fast"], rope.beta_fast);
  rope.beta_slow = number_or(place.inner["beta_slow"], rope.beta_slow);
  rope.truncate = place.inner["truncate"].boolean_or(true);
  const auto scale = [&](double mscale) { return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1; };
  const double mscale = number_or(place.inner["mscale"], 0), of_all = number_or(place.inner["mscale_all_dim"], 0);
  const double implied = mscale > 0 && of_all > 0 ? scale(mscale) / scale(of_all) : scale(1);
  rope.attention_factor = place.inner["attention_factor"].real_or(implied, kMinFactor, kMaxFactor);
  rope.mscale_all_dim = of_all;
}

std::vector<double> factors_of(const JsonField& list, int64_t count) {
  std::vector<double> result;
  for (const JsonField& factor : list.elements()) result.push_back(factor.real(kMinFactor, kMaxFactor));
  if (std::ssize(result) != count) {
    throw input_error(list.where(), "expected a factor for each of {} pairs of a head, got {}; correct the list", count,
                      result.size());
  }
  return result;
}

// Ding et al., LongRoPE, 2024, as transformers has it.
void read_longrope(const RopePlace& place, RopeConfig& rope) {
  rope.original_max_position_embeddings = original_positions(place);
  const int64_t pairs = rotary_size(rope, place.head_dim) / 2;
  rope.short_factor = factors_of(place.inner["short_factor"], pairs);
  rope.long_factor = factors_of(place.inner["long_factor"], pairs);
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double stretch = stretch_of(place, rope.original_max_position_embeddings);
  const double implied = stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(original));
  rope.attention_factor = place.inner["attention_factor"].real_or(implied, kMinFactor, kMaxFactor);
}

// Throws InputError for another share of a head than that of the part of latent attention that is rotated.
void check_rotated_part(const RopePlace& place, const JsonField& share) {
  const double rotated = static_cast<double>(place.head_dim);
  const double whole = static_cast<double>(place.config.layers.front().attention.head_dim);
  if (share.real_or(rotated / whole, 0, 1) != rotated / whole)
    throw share.bad(fmt::format("qk_rope_head_dim / (qk_nope_head_dim + qk_rope_head_dim) = {}", rotated / whole),
                    "leave it out, or correct it");
}

void read_part(const RopePlace& place, RopeConfig& rope) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  const Architecture& architecture = place.architecture;
  const JsonField& at = place.inner[kKey].is_null() ? place.json : place.inner;
  double missing = architecture.rope.partial_rotary_factor;
  if (const JsonField turning = place.json["rotary_dim"]; architecture.rope.has_rotary_dim && !turning.is_null())
    missing = static_cast<double>(turning.integer(2, place.head_dim)) / static_cast<double>(place.head_dim);
  if (architecture.rope.part_is_of_head) return check_rotated_part(place, at[kKey]);
  rope.partial_rotary_factor = at[kKey].real_or(missing, 0, 1);
  if (rope.type == RopeType::kProportional) return;
  if (!architecture.rope.is_partial && rope.partial_rotary_factor != 1) {
    throw input_error(at.where(), "expected {} 1, got {}; use a model that rotates whole heads", kKey,
                      rope.partial_rotary_factor);
  }
  const auto size = static_cast<int64_t>(static_cast<double>(place.head_dim) * rope.partial_rotary_factor);
  if (size < 2 || size % 2 != 0) {
    throw input_error(at.where(), "expected {} of {} elements of a head to be an even number, got {}; correct it", kKey,
                      place.head_dim, size);
  }
}

void read_query_scale(const RopePlace& place, RopeConfig& rope) {
  constexpr std::string_view kBeta = "llama_4_scaling_beta", kLength = "original_max_position_embeddings";
  rope.llama_4_scaling_beta = place.inner[kBeta].real(0, kMaxFactor);
  rope.original_max_position_embeddings = place.inner[kLength].integer(1, kMaxPositions);
}

// `theta`: what it is where the rope's own object does not say.
RopeConfig read_rope(const RopePlace& place, double theta) {
  RopeConfig rope;
  rope.type = rope_type_of(place.inner, place.architecture);
  rope.theta = place.inner["rope_theta"].real_or(theta, kMinTheta, kMaxTheta);
  if (has_stretched_base(place.inner, place.architecture)) {
    const auto size = static_cast<double>(place.head_dim);
    rope.theta *= std::pow(place.inner["alpha"].real(kMinFactor, kMaxFactor), size / (size - 2));
  }
  read_part(place, rope);
  switch (rope.type) {
    case RopeType::kDefault:
      if (place.architecture.rope.only_knows_longrope)
        rope.original_max_position_embeddings = original_positions(place);
      break;
    case RopeType::kLinear:
      read_linear(place, rope);
      break;
    case RopeType::kLlama3:
      read_llama3(place, rope);
      break;
    case RopeType::kYarn:
      read_yarn(place, rope);
      break;
    case RopeType::kLongrope:
      read_longrope(place, rope);
      break;
    case RopeType::kProportional:
      rope.factor = place.inner["factor"].real_or(1, kMinFactor, kMaxFactor);
      break;
  }
  if (place.architecture.rope.scales_queries) read_query_scale(place, rope);
  if (const JsonField sections = place.inner["mrope_section"];
      place.architecture.gguf.rope.has_sections && !sections.is_null())
    rope.mrope_section = sections.integers(0, ops::kMaxHeadSize);
  return rope;
}

// transformers 4 has rope_theta beside rope_scaling, transformers 5 all in rope_parameters; the inner rope_theta wins.
void read_one_rope(const JsonField& json, const Architecture& architecture, DecoderConfig& config) {
  const JsonField inner = json[json["rope_scaling"].is_null() ? "rope_parameters" : "rope_scaling"].object_or_empty();
  for (const std::string_view nested : {kFull, kSliding}) {
    if (inner.has(nested)) {
      throw input_error(inner.where(), "expected one rope for all layers, got one for {}; use a model without it",
                        nested);
    }
  }
  config.ropes = {read_rope({json, inner, architecture, config, config.layers.front().attention.rope_dim()},
                            json["rope_theta"].real_or(architecture.rope.theta, kMinTheta, kMaxTheta))};
}

// One for layers with a window and one for the others: transformers 4 stretches the second alone, by rope_scaling.
void read_two_ropes(const JsonField& json, const Architecture& architecture, DecoderConfig& config) {
  const double theta = json["rope_theta"].real_or(architecture.rope.theta, kMinTheta, kMaxTheta);
  const double local_theta = json["rope_local_base_freq"].real_or(architecture.rope.local_theta, kMinTheta, kMaxTheta);
  const JsonField both = json["rope_parameters"].object_or_empty();
  for (const auto& [name, member] : both.members()) {
    if (name != kFull && name != kSliding) {
      throw input_error(both.where(), "expected a rope for {} and one for {}, got {} beside them; name the layers",
                        kFull, kSliding, name);
    }
  }
  if (!json["rope_scaling"].is_null() && !both[kFull].is_null()) {
    throw input_error(json.where(), "expected rope_scaling or rope_parameters, got both; remove one of them");
  }
  const JsonField full = (json["rope_scaling"].is_null() ? both[kFull] : json["rope_scaling"]).object_or_empty();
  const JsonField sliding = both[kSliding].object_or_empty();
  config.ropes = {read_rope({json, full, architecture, config, head_dim_of(json, config, false)}, theta),
                  read_rope({json, sliding, architecture, config, head_dim_of(json, config, true)}, local_theta)};
  if (const double proportion = architecture.rope.proportion; proportion < 1 && json["rope_parameters"].is_null()) {
    config.ropes[0].type = RopeType::kProportional;
    config.ropes[0].partial_rotary_factor = proportion;
  }
  for (DecoderLayer& layer : config.layers) {
    if (layer.attention.window > 0) layer.attention.rope = 1;
  }
}

// Long waves are stretched by `factor`, short ones are left, those between are blended (Llama 3.1).
float stretch_by_wavelength(const RopeConfig& rope, float frequency) {
  const auto factor = static_cast<float>(rope.factor);
  const auto context = static_cast<float>(rope.original_max_position_embeddings);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  const double longest = static_cast<double>(rope.original_max_position_embeddings) / rope.low_freq_factor;
  const double shortest = static_cast<double>(rope.original_max_position_embeddings) / rope.high_freq_factor;
  if (wavelength > static_cast<float>(longest)) return frequency / factor;
  if (wavelength < static_cast<float>(shortest)) return frequency;
  const float blend = (context / wavelength - static_cast<float>(rope.low_freq_factor)) /
                      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1 - blend) * frequency / factor + blend * frequency;
}

// Returns the share of YaRN's stretched frequency in pair i of `size` elements: from 0 for fast ones to 1 for slow
// ones.
float yarn_blend(const RopeConfig& rope, int64_t size, size_t i) {
  const auto pair_of = [&](double turns) {
    const auto original = static_cast<double>(rope.original_max_position_embeddings);
    return static_cast<double>(size) * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = pair_of(rope.beta_fast), high = pair_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(size - 1));
  const double width = high == low ? 0.001 : high - low;
  return std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(width), 0.0f, 1.0f);
}

}  // namespace

void read_ropes(const JsonField& json, const Architecture& architecture, DecoderConfig& config) {
  (architecture.rope.local_theta > 0 ? read_two_ropes : read_one_rope)(json, architecture, config);
}

int64_t rotary_size(const RopeConfig& rope, int64_t head_dim) {
  if (rope.type == RopeType::kProportional) return head_dim;
  return static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
}

std::vector<float> rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim, bool is_long) {
  const int64_t size = rotary_size(rope, head_dim);
  const double turning = std::floor(rope.partial_rotary_factor * static_cast<double>(head_dim) / 2);  // proportional
  auto result = make_vector<float>(size / 2);
  for (size_t i = 0; i < result.size(); ++i) {
    // The power rounds once, from double; everything after it is f32 step by step, as in transformers.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(size);
    const auto power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    const auto factor = static_cast<float>(rope.factor);
    switch (rope.type) {
      case RopeType::kDefault:
        result[i] = 1 / power;
        break;
      case RopeType::kLinear:
        result[i] = 1 / power / factor;
        break;
      case RopeType::kLlama3:
        result[i] = stretch_by_wavelength(rope, 1 / power);
        break;
      case RopeType::kYarn: {
        const float kept = 1 - yarn_blend(rope, size, i);
        result[i] = 1 / (factor * power) * (1 - kept) + 1 / power * kept;
        break;
      }
      case RopeType::kLongrope:
        result[i] = 1 / (static_cast<float>((is_long ? rope.long_factor : rope.short_factor)[i]) * power);
        break;
      case RopeType::kProportional:
        result[i] = static_cast<double>(i) < turning ? 1 / power / factor : 0;
        break;
    }
  }
  return result;
}

}  // namespace spillway
