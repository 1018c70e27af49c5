// A decoder's config.json from the metadata of a GGUF file.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "model/decoder/architecture.h"
#include "model/decoder/gguf.h"
#include "model/quantised/quant_state.h"

namespace spillway {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Returns the shortest text's number that reads back to the same f32: GGUF keeps f32, where 1e-05 became
// 9.999999747378752e-06, and it is what the model's authors wrote.
double shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr;
  double result = value;
  std::from_chars(text.data(), end, result);
  return result;
}

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

// Throws InputError for the file of an adapter, of a projector of images or of a vocabulary, which names the
// architecture that it belongs to.
void check_is_model(const GgufFile& file) {
  const std::string* type = file.find<std::string>("general.type");
  if (type != nullptr && *type != "model") {
    throw input_error(file.path().string(),
                      "expected the file of a whole model, got one whose general.type is {}; name the model's own file",
                      quote(*type));
  }
}

// Throws InputError for experts in a file of another architecture than a mixture's.
void check_experts(const GgufFile& file, const Architecture& architecture) {
  const auto& name = file.get<std::string>("general.architecture");
  const int64_t* experts = file.find<int64_t>(fmt::format("{}.expert_count", name));
  if (experts == nullptr || *experts == 0 || architecture.gguf.mixture.is_there) return;
  throw input_error(file.path().string(), "expected no experts in a model of {}, got {}; {}", name, *experts,
                    "use the model's original folder");
}

// Returns true if the file has the key, and not as 0.
bool has(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return false;
  const auto* whole = std::get_if<int64_t>(&found->second);
  return whole == nullptr || *whole != 0;
}

const Architecture& find_gguf_architecture(const GgufFile& file) {
  const auto& name = file.get<std::string>("general.architecture");
  const Architecture* other = nullptr;
  std::set<std::string_view> known;
  for (const Architecture* architecture : all_architectures()) {
    const GgufFamily& family = architecture->gguf;
    if (!family.name.empty()) known.insert(family.name);
    if (family.name != name && family.name_in_mistral3 != name) continue;
    const bool is_told = !family.told_by.empty() && family.name == name;
    if (is_told && has(file, fmt::format("{}.{}", name, family.told_by))) return *architecture;
    if (!is_told && other == nullptr) other = architecture;
  }
  if (other != nullptr) return *other;
  throw input_error(file.path().string(), "expected general.architecture to be {}, got {}; use one of those models",
                    joined_names(std::vector<std::string_view>(known.begin(), known.end())), quote(name));
}

class ConfigMaker {
 public:
  ConfigMaker(const GgufFile& file, const GgufTokenizerFiles& tokenizer, DType dtype)
      : file_(file),
        name_(file.get<std::string>("general.architecture")),
        architecture_(find_gguf_architecture(file)),
        family_(architecture_.gguf),
        tokenizer_(tokenizer),
        dtype_(dtype) {}

  [[nodiscard]] OrderedJson make() {
    add_sizes();
    add_biases();
    add_tokens();
    add_mixture();
    add_keys();
    add_windows();
    add_rope();
    return std::move(config_);
  }

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view got) const {
    throw input_error(file_.path().string(), "expected {} {}, got {}; use the model's original folder", key, expected,
                      got);
  }
  [[nodiscard]] std::string key_of(std::string_view name) const { return fmt::format("{}.{}", name_, name); }
  [[nodiscard]] int64_t checked(const std::string& key, int64_t value) const {
    constexpr int64_t kLargest = int64_t{1} << 31;
    if (value >= 1 && value <= kLargest) return value;
    throw input_error(file_.path().string(), "expected {} between 1 and {}, got {}; convert the model again", key,
                      kLargest, value);
  }
  [[nodiscard]] int64_t positive(std::string_view name) const {
    const std::string key = key_of(name);
    return checked(key, file_.get<int64_t>(key));
  }
  [[nodiscard]] int64_t positive_or(std::string_view name, int64_t missing) const {
    const std::string key = key_of(name);
    const int64_t* value = file_.find<int64_t>(key);
    return value == nullptr ? missing : checked(key, *value);
  }
  [[nodiscard]] const double* find_real(std::string_view name) const { return file_.find<double>(key_of(name)); }
  [[nodiscard]] double real_or(std::string_view name, double missing) const {
    const double* value = find_real(name);
    return value == nullptr ? missing : shortest(*value);
  }

  void add_sizes();
  void add_biases();
  void add_tokens();
  void add_mixture();
  void add_keys();
  void add_windows();
  void add_rope();
  [[nodiscard]] OrderedJson scaling(double theta) const;
  [[nodiscard]] OrderedJson llama3_scaling(const GgufTensor& tensor, double theta) const;
  [[nodiscard]] OrderedJson longrope_scaling() const;
  [[nodiscard]] std::vector<double> factors(std::string_view tensor) const;

  const GgufFile& file_;
  std::string name_;
  const Architecture& architecture_;
  const GgufFamily& family_;
  const GgufTokenizerFiles& tokenizer_;
  DType dtype_;
  int64_t head_dim_ = 0;
  OrderedJson config_;
};

void ConfigMaker::add_sizes() {
  const int64_t hidden = positive("embedding_length"), heads = positive("attention.head_count");
  const int64_t share = std::max<int64_t>(hidden / heads, 1);
  const bool is_llama = family_.rope.states_size && !architecture_.rope.is_partial;
  const int64_t missing = is_llama ? positive_or("rope.dimension_count", share) : share;
  head_dim_ = family_.heads_fill_rows ? share : positive_or("attention.key_length", missing);
  if (positive_or("attention.value_length", head_dim_) != head_dim_)
    refuse("attention.value_length", "to equal the key's", "another");
  if (!architecture_.rope.is_partial && positive_or("rope.dimension_count", head_dim_) != head_dim_)
    refuse("rope.dimension_count", "to be the head size", "a part of it");
  const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
  if (embedding == nullptr) refuse("the tensor token_embd.weight", "in the file", "none");

  config_["architectures"] = {std::string(architecture_.name)};
  config_["model_type"] = std::string(architecture_.model_type);
  config_["attention_dropout"] = 0.0;
  if (!family_.heads_fill_rows) config_["head_dim"] = head_dim_;
  config_[std::string(architecture_.activation_key)] = std::string(architecture_.activation_names[0]);
  config_["hidden_size"] = hidden;
  config_["initializer_range"] = 0.02;
  config_["intermediate_size"] = positive("feed_forward_length");
  config_["max_position_embeddings"] = positive("context_length");
  config_["num_attention_heads"] = heads;
  config_["num_hidden_layers"] = positive("block_count");
  config_["num_key_value_heads"] = positive_or("attention.head_count_kv", heads);
  const bool is_rms = architecture_.norm.kind == NormKind::kRms;
  config_[std::string(architecture_.norm.eps_key)] =
      shortest(file_.get<double>(key_of(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon")));
  config_["tie_word_embeddings"] = file_.find_tensor("output.weight") == nullptr;
  config_["torch_dtype"] = torch_name_of(dtype_);
  config_["use_cache"] = true;
  config_["vocab_size"] = embedding->shape[0];
}

// Adds the keys of biases. The tensors of one layer tell of all layers: a file in which they differ has tensors too
// many or too few.
void ConfigMaker::add_biases() {
  if (!family_.biases.vary) return;
  const auto has_bias = [&](std::string_view tensor) {
    return file_.find_tensor(fmt::format("blk.0.{}.bias", tensor)) != nullptr;
  };
  config_["attention_bias"] = has_bias("attn_q");
  if (family_.biases.feed_forward) config_["mlp_bias"] = has_bias("ffn_up");
}

void ConfigMaker::add_tokens() {
  if (tokenizer_.bos) config_["bos_token_id"] = *tokenizer_.bos;
  if (tokenizer_.eos.size() == 1) config_["eos_token_id"] = tokenizer_.eos[0];
  if (tokenizer_.eos.size() > 1) config_["eos_token_id"] = tokenizer_.eos;
  if (tokenizer_.pad) config_["pad_token_id"] = *tokenizer_.pad;
  // Where nothing is said, transformers takes a number of its own, which may be no token.
  if (!tokenizer_.pad && architecture_.default_pad_token_id) config_["pad_token_id"] = nullptr;
}

void ConfigMaker::add_mixture() {
  const GgufMixture& mixture = family_.mixture;
  if (!mixture.is_there) return;
  config_[std::string(mixture.experts)] = positive("expert_count");
  config_["num_experts_per_tok"] = positive("expert_used_count");
  config_["norm_topk_prob"] = mixture.normalises;
  if (mixture.states_inner_width) config_["moe_intermediate_size"] = positive("expert_feed_forward_length");
  if (file_.find<int64_t>(key_of("expert_shared_feed_forward_length")) != nullptr)
    config_["shared_expert_intermediate_size"] = positive("expert_shared_feed_forward_length");
}

void ConfigMaker::add_keys() {
  for (const GgufKey& key : family_.keys)
    if (const double* value = find_real(key.gguf)) config_[std::string(key.config)] = shortest(*value);
  // The scale of scores is no key of llama.cpp's files, which derives it; only Gemma's configs name it.
  if (family_.layers_of_wide_scale > 0) {
    const bool is_wide = config_["num_hidden_layers"] == family_.layers_of_wide_scale;
    config_["query_pre_attn_scalar"] =
        is_wide ? config_["hidden_size"].get<int64_t>() / config_["num_attention_heads"].get<int64_t>() : head_dim_;
  }
  if (architecture_.default_dropout > 0) config_["residual_dropout"] = 0.0;
}

void ConfigMaker::add_windows() {
  const bool is_told = family_.told_by == "attention.sliding_window";
  if (family_.windows == GgufWindows::kNoLayer && !is_told) return;
  const std::string key = key_of("attention.sliding_window");
  const int64_t* window = file_.find<int64_t>(key);
  if (window == nullptr || *window == 0) {
    if (family_.windows == GgufWindows::kUnread) config_["sliding_window"] = nullptr;
    if (family_.windows == GgufWindows::kPatternOrNone) config_["sliding_window_pattern"] = 1;
    return;
  }
  config_["sliding_window"] = checked(key, *window);
  if (family_.windows != GgufWindows::kListed) return;
  OrderedJson types = OrderedJson::array();
  for (const int64_t has_window : file_.get<std::vector<int64_t>>(key_of("attention.sliding_window_pattern")))
    types.push_back(has_window != 0 ? "sliding_attention" : "full_attention");
  config_["layer_types"] = std::move(types);
}

std::vector<double> ConfigMaker::factors(std::string_view name) const {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr || tensor->shape.size() != 1) refuse(name, "as a list of factors", "none");
  auto stored = make_vector<float>(tensor->elems());
  file_.read_rows(*tensor, 0, 1, stored.data());
  std::vector<double> result;
  for (const float value : stored) result.push_back(shortest(value));
  return result;
}

// GGUF keeps the factors themselves in a tensor. They are turned back into the numbers by which all released Llama 3
// models made them, and compared.
OrderedJson ConfigMaker::llama3_scaling(const GgufTensor& tensor, double theta) const {
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

OrderedJson ConfigMaker::longrope_scaling() const {
  OrderedJson result = {{"rope_type", "longrope"},
                        {"type", "longrope"},
                        {"short_factor", factors("rope_factors_short.weight")},
                        {"long_factor", factors("rope_factors_long.weight")}};
  if (const double* factor = find_real("rope.scaling.attn_factor")) result["attention_factor"] = shortest(*factor);
  return result;
}

OrderedJson ConfigMaker::scaling(double theta) const {
  if (const GgufTensor* tensor = file_.find_tensor("rope_freqs.weight");
      tensor != nullptr && family_.rope.reads_factors)
    return llama3_scaling(*tensor, theta);
  if (family_.rope.reads_longrope && file_.find_tensor("rope_factors_long.weight") != nullptr)
    return longrope_scaling();
  const double* linear = find_real("rope.scale_linear");  // an older name
  const std::string* type = file_.find<std::string>(key_of("rope.scaling.type"));
  const double* factor = find_real("rope.scaling.factor");
  if (type == nullptr && linear != nullptr && *linear != 1.0)
    return {{"rope_type", "linear"}, {"factor", shortest(*linear)}};
  if (type == nullptr || *type == "none" || factor == nullptr || *factor == 0.0 || *factor == 1.0) return nullptr;
  if (*type != "linear" && *type != "yarn")
    refuse(key_of("rope.scaling.type"), "to be none, linear or yarn", quote(*type));
  OrderedJson result = {{"rope_type", *type}, {"factor", shortest(*factor)}};
  if (*type == "linear") return result;
  result["original_max_position_embeddings"] =
      positive_or("rope.scaling.original_context_length", positive("context_length"));
  if (family_.rope.reads_yarn_betas) {
    result["beta_fast"] = real_or("rope.scaling.yarn_beta_fast", 32);
    result["beta_slow"] = real_or("rope.scaling.yarn_beta_slow", 1);
  }
  if (architecture_.rope.scales_queries) {
    result["mscale"] = 1.0;
    result["mscale_all_dim"] = real_or("rope.scaling.yarn_log_multiplier", 0);
    result["llama_4_scaling_beta"] = real_or("attention.temperature_scale", 0);
  }
  return result;
}

void ConfigMaker::add_rope() {
  const double theta = real_or("rope.freq_base", 10000);
  OrderedJson scaled = scaling(theta);
  if (architecture_.rope.is_partial) {
    const int64_t size = positive_or("rope.dimension_count", head_dim_);
    config_["partial_rotary_factor"] = static_cast<double>(size) / static_cast<double>(head_dim_);
  }
  if (architecture_.rope.only_knows_longrope) {
    config_["original_max_position_embeddings"] =
        positive_or("rope.scaling.original_context_length", positive("context_length"));
  }
  if (family_.rope.local_base == GgufLocalBase::kUnwritten) {
    config_["rope_scaling"] = std::move(scaled);
    config_["rope_theta"] = theta;
    return;
  }
  const bool is_same = family_.rope.local_base == GgufLocalBase::kSame;
  if (scaled.is_null()) scaled = {{"rope_type", "default"}};
  scaled["rope_theta"] = theta;
  const double local = is_same ? theta : real_or("rope.freq_base_swa", 10000);
  config_["rope_parameters"] = {{"full_attention", std::move(scaled)},
                                {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

}  // namespace

void check_is_decoder(const GgufFile& file) {
  check_is_model(file);
  check_experts(file, find_gguf_architecture(file));
}

nlohmann::ordered_json decoder_config_of(const GgufFile& file, const GgufTokenizerFiles& tokenizer, DType dtype) {
  return ConfigMaker(file, tokenizer, dtype).make();
}

}  // namespace spillway
