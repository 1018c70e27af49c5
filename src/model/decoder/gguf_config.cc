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
#include "model/decoder/gguf_config_maker.h"
#include "model/quantised/quant_state.h"

namespace spillway {
namespace {

// Throws InputError for the file of an adapter, of a projector of images or of a vocabulary, which names the
// architecture that it belongs to; and for one of several files of a model.
void check_is_model(const GgufFile& file) {
  const int64_t* parts = file.find<int64_t>("split.count");
  if (parts != nullptr && *parts > 1)
    throw input_error(file.path().string(),
                      "expected the file of a whole model, got one of {} parts; join them with llama.cpp's "
                      "`llama-gguf-split --merge`",
                      *parts);
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

// Returns true if the name of one of the file's tensors has the ending.
bool has_tensor(const GgufFile& file, std::string_view ending) {
  return !ending.empty() && std::any_of(file.tensors().begin(), file.tensors().end(),
                                        [&](const auto& tensor) { return tensor.first.ends_with(ending); });
}

const Architecture& find_gguf_architecture(const GgufFile& file) {
  const auto& name = file.get<std::string>("general.architecture");
  const Architecture* other = nullptr;
  std::set<std::string_view> known;
  for (const Architecture* architecture : all_architectures()) {
    const GgufFamily& family = architecture->gguf;
    for (const std::string_view one : {family.name, family.name_with_experts})
      if (!one.empty()) known.insert(one);
    if (family.name != name && family.name_in_mistral3 != name && family.name_with_experts != name) continue;
    const bool is_told = (!family.told_by.empty() || !family.told_by_tensor.empty()) && family.name == name;
    if (is_told && (has(file, fmt::format("{}.{}", name, family.told_by)) || has_tensor(file, family.told_by_tensor)))
      return *architecture;
    if (!is_told && other == nullptr) other = architecture;
  }
  if (other != nullptr) return *other;
  throw input_error(file.path().string(), "expected general.architecture to be {}, got {}; use one of those models",
                    joined_names(std::vector<std::string_view>(known.begin(), known.end())), quote(name));
}

}  // namespace

double shortest_number(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr;
  double result = value;
  std::from_chars(text.data(), end, result);
  return result;
}

void GgufConfigMaker::add_sizes() {
  const bool* is_causal = file_.find<bool>(key_of("attention.causal"));
  if (is_causal != nullptr && !*is_causal) refuse(key_of("attention.causal"), "to be true", "false");
  const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
  if (embedding == nullptr) refuse("the tensor token_embd.weight", "in the file", "none");
  if (tokenizer_.tokens > embedding->shape.front())
    refuse("token_embd.weight", fmt::format("to have a row for each of {} tokens", tokenizer_.tokens),
           fmt::format("{}", embedding->shape.front()));
  config_["architectures"] = {std::string(architecture_.name)};
  config_["model_type"] = std::string(architecture_.model_type);
  config_["attention_dropout"] = 0.0;
  config_[std::string(architecture_.activation_key)] = std::string(architecture_.activation_names[0]);
  config_["hidden_size"] = positive("embedding_length");
  config_["initializer_range"] = 0.02;
  const std::vector<int64_t>* widths = find_list("feed_forward_length");
  const bool has_list = widths != nullptr && !widths->empty();
  if (family_.lists_widths) {
    const int64_t widest = has_list ? *std::ranges::max_element(*widths) : 0;
    if (widest > 0) config_["intermediate_size"] = checked(key_of("feed_forward_length"), widest);
  } else if (!family_.double_width_key.empty() && has_list) {
    config_["intermediate_size"] = checked(key_of("feed_forward_length"), widths->front());
    config_[std::string(family_.double_width_key)] = true;
  } else if (architecture_.has_feed_forward || family_.mixture.shares_feed_forward) {
    config_["intermediate_size"] = positive("feed_forward_length");
  }
  config_["max_position_embeddings"] = positive("context_length");
  config_["num_attention_heads"] = positive("attention.head_count");
  config_["num_hidden_layers"] = positive("block_count") - unread_gguf_layers(file_);
  const bool is_rms = architecture_.norm.kind == NormKind::kRms && !family_.has_layer_norm_eps;
  const std::string eps = key_of(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon");
  config_[std::string(architecture_.norm.eps_key)] = shortest_number(file_.get<double>(eps));
  config_["tie_word_embeddings"] = file_.find_tensor("output.weight") == nullptr;
  config_["torch_dtype"] = torch_name_of(dtype_);
  config_["use_cache"] = true;
  config_["vocab_size"] = embedding->shape[0];
  for (const GgufCount& count : family_.counts) config_[std::string(count.config)] = positive_or_none(count.gguf);
  if (!family_.input_rows_key.empty()) config_[std::string(family_.input_rows_key)] = embedding->shape[0];
}

// Adds the keys of biases. One tensor tells of all layers: a file in which they differ has tensors too few.
void GgufConfigMaker::add_biases() {
  if (!family_.biases.vary) return;
  const auto has_bias = [&](std::string_view tensor) {
    const auto is_it = [&](const auto& one) { return one.first.ends_with(fmt::format(".{}.bias", tensor)); };
    return std::any_of(file_.tensors().begin(), file_.tensors().end(), is_it);
  };
  config_["attention_bias"] = has_bias("attn_q");
  if (family_.biases.feed_forward) config_["mlp_bias"] = has_bias("ffn_up");
}

void GgufConfigMaker::add_head_norms() {
  if (!family_.head_norm_key.empty())
    config_[std::string(family_.head_norm_key)] = file_.find_tensor("blk.0.attn_q_norm.weight") != nullptr;
}

void GgufConfigMaker::add_tokens() {
  if (tokenizer_.bos) config_["bos_token_id"] = *tokenizer_.bos;
  if (tokenizer_.eos.size() == 1) config_["eos_token_id"] = tokenizer_.eos[0];
  if (tokenizer_.eos.size() > 1) config_["eos_token_id"] = tokenizer_.eos;
  if (tokenizer_.pad) config_["pad_token_id"] = *tokenizer_.pad;
  // Where nothing is said, transformers takes a number of its own, which may be no token.
  if (!tokenizer_.pad && architecture_.default_pad_token_id) config_["pad_token_id"] = nullptr;
}

void GgufConfigMaker::add_keys() {
  for (const GgufKey& key : family_.keys)
    if (const double* value = find_real(key.gguf)) config_[std::string(key.config)] = shortest_number(*value);
  if (!family_.embedding_scale_key.empty()) config_[std::string(family_.embedding_scale_key)] = true;
  // The scale of scores is no key of llama.cpp's files, which derives it; only Gemma's configs name it.
  if (family_.layers_of_wide_scale > 0) {
    const bool is_wide = config_["num_hidden_layers"] == family_.layers_of_wide_scale;
    config_["query_pre_attn_scalar"] =
        is_wide ? config_["hidden_size"].get<int64_t>() / config_["num_attention_heads"].get<int64_t>() : head_dim_;
  }
  if (architecture_.default_dropout > 0) config_["residual_dropout"] = 0.0;
}

void GgufConfigMaker::add_windows() {
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
  Json types = Json::array();
  for (const int64_t has_window : file_.get<std::vector<int64_t>>(key_of("attention.sliding_window_pattern")))
    types.push_back(has_window != 0 ? "sliding_attention" : "full_attention");
  config_["layer_types"] = std::move(types);
}

void check_is_decoder(const GgufFile& file) {
  check_is_model(file);
  check_experts(file, find_gguf_architecture(file));
}

nlohmann::ordered_json decoder_config_of(const GgufFile& file, const GgufTokenizerFiles& tokenizer, DType dtype) {
  return GgufConfigMaker(file, find_gguf_architecture(file), tokenizer, dtype).make();
}

}  // namespace spillway
