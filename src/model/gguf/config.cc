#include "model/gguf/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "model/quantised/quant_state.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

std::string key_of(const GgufModel& model, std::string_view name) {
  return fmt::format("{}.{}", model.architecture, name);
}

int64_t checked(const GgufFile& file, const std::string& key, int64_t value) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  if (value >= 1 && value <= kLargest) return value;
  throw input_error(file.path().string(), "expected {} between 1 and {}, got {}; convert the model again", key,
                    kLargest, value);
}
int64_t positive(const GgufFile& file, const GgufModel& model, std::string_view name) {
  const std::string key = key_of(model, name);
  return checked(file, key, file.get<int64_t>(key));
}
int64_t positive_or(const GgufFile& file, const GgufModel& model, std::string_view name, int64_t fallback) {
  const std::string key = key_of(model, name);
  const int64_t* value = file.find<int64_t>(key);
  return value == nullptr ? fallback : checked(file, key, *value);
}
const double* find_real(const GgufFile& file, const GgufModel& model, std::string_view name) {
  return file.find<double>(key_of(model, name));
}

// GGUF keeps f32; 1e-05 became 9.999999747378752e-06. The shortest text that reads back to the same f32 is what the
// model's authors wrote.
double shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr;
  double result = value;
  std::from_chars(text.data(), end, result);
  return result;
}

[[noreturn]] void refuse_file(const GgufFile& file, std::string_view key, std::string_view expected,
                              std::string_view got) {
  throw input_error(file.path().string(), "expected {} {}, got {}; use the model's original folder", key, expected,
                    got);
}

// The factors by which Llama 3.1 and later divide their frequencies, from the four numbers that config.json has.
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

// GGUF keeps the factors themselves in a tensor. They are turned back into the numbers by which all released Llama 3
// models made them, and compared.
Json llama3_scaling(const GgufFile& file, const GgufModel& model, const GgufTensor& tensor, double theta) {
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192, kTolerance = 1e-3;
  if (tensor.shape != std::vector<int64_t>{model.head_dim / 2})
    refuse_file(file, "rope_freqs.weight", "of head_dim / 2 values", "another shape");
  auto stored = make_vector<float>(model.head_dim / 2);
  file.read_rows(tensor, 0, 1, stored.data());
  const double factor = shortest(*std::max_element(stored.begin(), stored.end()));
  if (factor == 1.0) return nullptr;
  const std::vector<double> expected = llama3_factors(theta, model.head_dim, factor, kLow, kHigh, kOriginal);
  for (size_t i = 0; i < stored.size(); ++i) {
    if (std::abs(stored[i] - expected[i]) > kTolerance * expected[i]) {
      refuse_file(file, "rope_freqs.weight", "as Llama 3.1 has it", fmt::format("{} as value {}", stored[i], i));
    }
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", static_cast<int64_t>(kOriginal)}};
}

Json rope_scaling(const GgufFile& file, const GgufModel& model, double theta) {
  if (const GgufTensor* factors = file.find_tensor("rope_freqs.weight"))
    return llama3_scaling(file, model, *factors, theta);
  const double* linear = find_real(file, model, "rope.scale_linear");  // an older name
  const std::string* type = file.find<std::string>(key_of(model, "rope.scaling.type"));
  const double* factor = find_real(file, model, "rope.scaling.factor");
  if (type == nullptr && linear != nullptr && *linear != 1.0)
    return {{"rope_type", "linear"}, {"factor", shortest(*linear)}};
  if (type == nullptr || *type == "none" || factor == nullptr || *factor == 0.0 || *factor == 1.0) return nullptr;
  if (*type == "linear") return {{"rope_type", "linear"}, {"factor", shortest(*factor)}};
  refuse_file(file, key_of(model, "rope.scaling.type"), "to be none or linear", quote(*type));
}

// All of a kind of bias tensors, or none; `names` as in the first layer.
bool has_biases(const GgufFile& file, std::initializer_list<std::string_view> names) {
  int64_t found = 0;
  for (const std::string_view name : names) found += file.find_tensor(fmt::format("blk.0.{}.bias", name)) != nullptr;
  if (found == 0) return false;
  if (found == static_cast<int64_t>(names.size())) return true;
  refuse_file(file, "biases", fmt::format("on all of {} or none", fmt::join(names, ", ")), "some");
}

void check_biases(const GgufFile& file, const GgufModel& model) {
  if (model.architecture == "llama" && model.qkv_bias != model.output_bias) {
    refuse_file(file, "attention biases", "on all four projections of a llama or none", "some");
  }
  if (model.architecture == "qwen2" && (!model.qkv_bias || model.output_bias)) {
    refuse_file(file, "attention biases", "on query, key and value of a qwen2", "others");
  }
  if (model.architecture == "qwen3" && model.qkv_bias != model.output_bias) {
    refuse_file(file, "attention biases", "on all four projections of a qwen3 or none", "some");
  }
  if (model.architecture != "llama" && model.mlp_bias)
    refuse_file(file, "biases", "not in the feed-forward part", "some there");
}

void check_heads(const GgufFile& file, const GgufModel& model) {
  if (model.heads % model.kv_heads != 0) {
    refuse_file(file, "attention.head_count", "to be a multiple of head_count_kv",
                fmt::format("{} and {}", model.heads, model.kv_heads));
  }
  if (model.head_dim % 2 != 0) refuse_file(file, "the head size", "to be even", fmt::format("{}", model.head_dim));
  if (positive_or(file, model, "attention.value_length", model.head_dim) != model.head_dim) {
    refuse_file(file, "attention.value_length", "to equal the key's", "another");
  }
  if (positive_or(file, model, "rope.dimension_count", model.head_dim) != model.head_dim) {
    refuse_file(file, "rope.dimension_count", "to be the head size", "a part of it");
  }
}

}  // namespace

GgufModel read_gguf_model(const GgufFile& file) {
  GgufModel model;
  model.architecture = file.get<std::string>("general.architecture");
  if (model.architecture != "llama" && model.architecture != "qwen2" && model.architecture != "qwen3") {
    throw input_error(file.path().string(),
                      "expected general.architecture to be llama, qwen2 or qwen3, got {}; use one of those models",
                      quote(model.architecture));
  }
  // Files of adapters, of projectors of images and of vocabularies name the architecture that they belong to.
  const std::string* type = file.find<std::string>("general.type");
  if (type != nullptr && *type != "model") {
    throw input_error(file.path().string(),
                      "expected the file of a whole model, got one whose general.type is {}; name the model's own file",
                      quote(*type));
  }
  const int64_t* experts = file.find<int64_t>(key_of(model, "expert_count"));
  if (experts != nullptr && *experts > 0)
    refuse_file(file, "a dense model", "without experts", fmt::format("{} experts", *experts));

  model.layers = positive(file, model, "block_count");
  model.hidden = positive(file, model, "embedding_length");
  model.intermediate = positive(file, model, "feed_forward_length");
  model.heads = positive(file, model, "attention.head_count");
  model.kv_heads = positive_or(file, model, "attention.head_count_kv", model.heads);
  const bool llama = model.architecture == "llama";
  const int64_t default_dim =
      llama ? positive_or(file, model, "rope.dimension_count", std::max<int64_t>(model.hidden / model.heads, 1))
            : std::max<int64_t>(model.hidden / model.heads, 1);
  model.head_dim = positive_or(file, model, "attention.key_length", default_dim);
  check_heads(file, model);

  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) refuse_file(file, "the tensor token_embd.weight", "in the file", "none");
  model.vocabulary = embedding->shape[0];
  model.tied = file.find_tensor("output.weight") == nullptr;
  model.qkv_bias = has_biases(file, {"attn_q", "attn_k", "attn_v"});
  model.output_bias = has_biases(file, {"attn_output"});
  model.mlp_bias = has_biases(file, {"ffn_gate", "ffn_up", "ffn_down"});
  check_biases(file, model);
  return model;
}

Json gguf_config(const GgufFile& file, const GgufModel& model, const GgufTokenizerFiles& tokenizer, DType dtype) {
  const double* base = find_real(file, model, "rope.freq_base");
  const double theta = base == nullptr ? 10000.0 : shortest(*base);
  const bool llama = model.architecture == "llama";
  // A llama with a window is a Mistral: the tensors are the same.
  const int64_t window = llama ? positive_or(file, model, "attention.sliding_window", 0) : 0;
  if (window > 0 && (model.qkv_bias || model.mlp_bias)) refuse_file(file, "a Mistral", "without biases", "some");
  const bool mistral = window > 0;

  Json config;
  config["architectures"] = {mistral                         ? "MistralForCausalLM"
                             : llama                         ? "LlamaForCausalLM"
                             : model.architecture == "qwen2" ? "Qwen2ForCausalLM"
                                                             : "Qwen3ForCausalLM"};
  config["model_type"] = mistral ? "mistral" : model.architecture;
  if (!mistral && model.architecture != "qwen2") config["attention_bias"] = model.qkv_bias;
  config["attention_dropout"] = 0.0;
  if (tokenizer.bos) config["bos_token_id"] = *tokenizer.bos;
  if (tokenizer.eos.size() == 1) config["eos_token_id"] = tokenizer.eos[0];
  if (tokenizer.eos.size() > 1) config["eos_token_id"] = tokenizer.eos;
  if (tokenizer.pad) config["pad_token_id"] = *tokenizer.pad;
  config["head_dim"] = model.head_dim;
  config["hidden_act"] = "silu";
  config["hidden_size"] = model.hidden;
  config["initializer_range"] = 0.02;
  config["intermediate_size"] = model.intermediate;
  config["max_position_embeddings"] = positive(file, model, "context_length");
  if (llama && !mistral) config["mlp_bias"] = model.mlp_bias;
  config["num_attention_heads"] = model.heads;
  config["num_hidden_layers"] = model.layers;
  config["num_key_value_heads"] = model.kv_heads;
  config["rms_norm_eps"] = shortest(file.get<double>(key_of(model, "attention.layer_norm_rms_epsilon")));
  config["rope_scaling"] = rope_scaling(file, model, theta);
  config["rope_theta"] = theta;
  if (mistral) config["sliding_window"] = window;
  config["tie_word_embeddings"] = model.tied;
  config["torch_dtype"] = torch_name_of(dtype);
  config["use_cache"] = true;
  config["vocab_size"] = model.vocabulary;
  return config;
}

}  // namespace spillway
