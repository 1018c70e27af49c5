#include "model/decoder/config.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/text.h"
#include "io/file.h"
#include "model/config_overrides.h"
#include "model/decoder/architecture.h"
#include "model/decoder/parts.h"
#include "model/decoder/sliding_window.h"
#include "model/decoder/wrapper.h"
#include "model/layout.h"
#include "model/storages/fp8.h"
#include "model/storages/mxfp4.h"
#include "model/storages/quantised_files.h"
#include "ops/rope/rope.h"

namespace spillway {
namespace {

constexpr int64_t kLimitBytes = 4 * kMiB;

// Bounds far above any model of this kind, low enough that no product of sizes overflows.
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = ops::kMaxHeadSize;

int64_t read_kv_heads(const JsonField& json, const Architecture& architecture, int64_t heads) {
  // An explicit null means "as many as query heads" in every architecture; only a missing key has a default of its own.
  const int64_t missing =
      json.has("num_key_value_heads") || architecture.default_kv_heads == 0 ? heads : architecture.default_kv_heads;
  const int64_t kv_heads = json["num_key_value_heads"].integer_or(missing, 1, kMaxHeads);
  if (heads % kv_heads == 0) return kv_heads;
  throw input_error(json.where(),
                    "expected num_attention_heads to be a multiple of num_key_value_heads, got {} and {}; "
                    "check both numbers",
                    heads, kv_heads);
}

int64_t named_head_dim(const JsonField& json, const Architecture& architecture, int64_t hidden, int64_t heads) {
  if (!json["head_dim"].is_null()) return json["head_dim"].integer(2, kMaxHeadDim);
  if (architecture.default_head_dim != 0 && !json.has("head_dim")) return architecture.default_head_dim;
  if (hidden % heads == 0) return hidden / heads;
  throw input_error(json.where(),
                    "expected hidden_size to be a multiple of num_attention_heads, got {} and {}; check "
                    "both numbers or add head_dim",
                    hidden, heads);
}

int64_t read_head_dim(const JsonField& json, const Architecture& architecture, int64_t hidden, int64_t heads) {
  const int64_t head_dim = named_head_dim(json, architecture, hidden, heads);
  if (head_dim % 2 == 0 && head_dim >= 2 && head_dim <= kMaxHeadDim) return head_dim;
  throw input_error(json.where(),
                    "expected heads of an even size from 2 to {}, got {}; check hidden_size, "
                    "num_attention_heads and head_dim",
                    kMaxHeadDim, head_dim);
}

// Reads the layers, which are alike until the architecture's `read` changes them.
void read_layers(const JsonField& json, const Architecture& architecture, DecoderConfig& config) {
  DecoderLayer layer = architecture.layer;
  const bool has_own_key = !architecture.inner_key.empty() && json.has(architecture.inner_key);
  if (architecture.has_feed_forward)
    layer.feed_forward.inner = json[has_own_key ? architecture.inner_key : "intermediate_size"].integer(1, kMaxWidth);
  const int64_t layers = architecture.count_layers != nullptr ? architecture.count_layers(json)
                                                              : json["num_hidden_layers"].integer(1, kMaxLayers);
  if (layers > kMaxLayers)
    throw input_error(json.where(), "expected at most {} layers, got {}; correct the list", kMaxLayers, layers);
  layer.attention.heads = json["num_attention_heads"].integer(1, kMaxHeads);
  layer.attention.kv_heads = read_kv_heads(json, architecture, layer.attention.heads);
  layer.attention.head_dim = read_head_dim(json, architecture, config.hidden_size, layer.attention.heads);
  layer.attention.scale = 1 / std::sqrt(static_cast<double>(layer.attention.head_dim));
  config.layers.assign(static_cast<size_t>(layers), layer);
}

std::optional<DType> read_dtype(const JsonField& json) {
  const std::string name = json["dtype"].string_or(json["torch_dtype"].string_or(""));
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return std::nullopt;
}

std::optional<int64_t> read_token_id(const JsonField& json, std::string_view key) {
  if (json[key].is_null()) return std::nullopt;
  // Some files write -1 for "none".
  const int64_t id = json[key].integer(-1, kMaxVocabulary);
  return id < 0 ? std::nullopt : std::optional(id);
}

// As torch reads it: below 0 it counts from the end. A row that is not there, with which torch makes no embedding, is
// none.
std::optional<int64_t> read_padding_idx(const JsonField& json, const Architecture& architecture, int64_t rows) {
  if (!architecture.clears_padding) return std::nullopt;
  std::optional<int64_t> id = architecture.default_pad_token_id;
  if (json.has("pad_token_id")) id.reset();
  if (!json["pad_token_id"].is_null()) id = json["pad_token_id"].integer(-1, kMaxVocabulary);
  if (id && *id < 0) *id += rows;
  return id && *id < rows ? id : std::nullopt;
}

// Throws InputError for a setting that would silently change the numbers if it were passed over.
void refuse_unsupported_decoder(const JsonField& json, const Architecture& architecture) {
  const std::string_view key = architecture.activation_key;
  const std::span<const std::string_view> names = architecture.activation_names;
  const std::string act = json[key].string_or(names[0]);
  if (std::find(names.begin(), names.end(), act) == names.end()) {
    throw input_error(json.where(), "expected {} {}, got {}; use a model with that activation", key, names[0],
                      quote(act));
  }
}

// The files say more of it than the config.
LinearStorage storage_of(const std::filesystem::path& folder, const QuantisationConfig& config) {
  if (config.format.coding == WeightCoding::kMxfp4) return stored_mxfp4(SafetensorsFolder(folder));
  if (config.format.coding == WeightCoding::kFp8) {
    if (has_weights(folder)) return stored_fp8(open_weights(folder), config.format);
    return planned_fp8(config.format, {config.dense_modules.begin(), config.dense_modules.end()});
  }
  LinearStorage storage = stored_linear_storage(SafetensorsFolder(folder));
  if ((storage.storage->name() == "int8") == config.load_in_4bit) {
    throw input_error((folder / "config.json").string(),
                      "expected weights in {} bits, as quantization_config says, got {}; "
                      "use the weights that belong to this config",
                      config.load_in_4bit ? 4 : 8, storage.storage->name());
  }
  return storage;
}

bool has_stacked_experts(const DecoderConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const DecoderLayer& layer) { return layer.mixture && layer.mixture->stacked; });
}

WeightNames default_names(const Architecture& architecture) {
  WeightNames names{.embedding = std::string(architecture.embedding)};
  if (!architecture.stem_in_files.empty()) names.stem_in_files = architecture.stem_in_files;
  return names;
}

// Files of a family with another beginning of its names may have transformers' own.
void find_stem(const SafetensorsFolder& files, WeightNames& names) {
  if (files.find(names.in_files(kEmbedding)) == nullptr) names.stem_in_files = names.stem;
}

// Where files may have all experts of a layer in two tensors, as on the hub, transformers writes them one by one.
void find_stacked_experts(const SafetensorsFolder& files, DecoderConfig& config) {
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer) {
    std::optional<Mixture>& mixture = nth(config.layers, layer).mixture;
    if (!mixture || !mixture->stacked) continue;
    const std::string_view dot = mixture->module.empty() ? "" : ".";
    const std::string tensor =
        fmt::format("{}{}{}{}", layer_prefix(layer), mixture->module, dot, mixture->stacked->gate_up_proj);
    if (files.find(config.names.in_files(tensor)) == nullptr) mixture->stacked.reset();
  }
}

// YaRN stretches the scores of latent attention, too, by the factor for all of a head (DeepSeek V3).
void stretch_latent_scores(DecoderConfig& config) {
  for (DecoderLayer& layer : config.layers) {
    if (!layer.attention.latent || !layer.attention.rope) continue;
    const RopeConfig& rope = config.ropes[*layer.attention.rope];
    const double factor = rope.factor <= 1 ? 1 : 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1;
    layer.attention.scale *= factor * factor;
  }
}

// Transformers takes two where nothing is said.
int64_t read_labels(const JsonField& json) {
  constexpr int64_t kDefault = 2, kMax = 1 << 20;
  const JsonField names = json["id2label"];
  return names.is_null() ? json["num_labels"].integer_or(kDefault, 1, kMax) : std::ssize(names.members());
}

std::optional<ScoreHead> read_score(const JsonField& json) {
  const auto check = [&](int64_t labels, int64_t wanted, std::string_view what) {
    if (labels != wanted)
      throw input_error(json.where(), "expected a classifier of {}, got {}; use a reward model", what, labels);
  };
  if (is_classifier(json, false)) {
    check(read_labels(json), 1, "one label, which is a score");
    return ScoreHead{};
  }
  if (!is_classifier(json, true)) return {};
  ScoreHead steps = kStepScores;
  check(read_labels(json), steps.labels, "tokens with two labels, which score steps");
  steps.has_bias = json["token_classification_bias"].boolean_or(true);
  return steps;
}

}  // namespace

void note_dropout(const JsonField& json, std::string_view key, DecoderConfig& config, double missing) {
  const double dropout = json[key].real_or(missing, 0.0, 1.0);
  if (dropout == 0 || config.untrainable) return;
  config.untrainable = input_error(json.where(), "expected {} 0, got {}{}; {}", key, dropout,
                                   json[key].is_null() ? ", which transformers takes where it is left out" : "",
                                   override_advice(json.where(), key, "0"));
}

DecoderConfig parse_decoder_config(std::string_view text, std::string_view where) {
  const TextConfig said = read_text_config(text, where);
  const JsonField json(said.json, said.where);
  const Architecture& architecture = find_architecture(json);
  refuse_unsupported_decoder(json, architecture);
  DecoderConfig config;
  config.score = read_score(json);
  config.initializer_range = json["initializer_range"].real_or(config.initializer_range, 0, 1e3);
  config.architecture = &architecture;
  config.wrapper = said.wrapper;
  config.files_say_tie = said.files_say_tie;
  config.names = config.wrapper.empty() ? default_names(architecture) : default_wrapper_names();
  config.vocab_size = json["vocab_size"].integer(1, kMaxVocabulary);
  config.hidden_size = json["hidden_size"].integer(1, kMaxWidth);
  config.max_position_embeddings =
      json["max_position_embeddings"].integer_or(architecture.default_max_position_embeddings, 1, kMaxPositions);
  config.norm_eps = json[architecture.norm.eps_key].real_or(architecture.norm.eps, 0.0, 1.0);
  config.names_head_dim = !json["head_dim"].is_null();
  read_layers(json, architecture, config);
  note_dropout(json, "attention_dropout", config, architecture.default_dropout);
  architecture.read(json, config);
  read_ropes(json, architecture, config);
  stretch_latent_scores(config);
  config.tie_word_embeddings = json["tie_word_embeddings"].boolean_or(architecture.ties_by_default);
  if (!architecture.tie_key.empty())
    config.tie_word_embeddings = json[architecture.tie_key].boolean_or(config.tie_word_embeddings);
  config.dtype = read_dtype(json);
  if (const JsonField quantised = json["quantization_config"]; !quantised.is_null())
    config.quantisation = parse_quantisation_config(quantised);
  config.bos_token_id = read_token_id(json, "bos_token_id");
  config.pad_token_id = read_token_id(json, "pad_token_id");
  config.padding_idx = read_padding_idx(json, architecture, config.vocab_size);
  return config;
}

namespace {

std::string read_config_text(const std::filesystem::path& path, const std::string& overrides) {
  return with_overrides(with_named_infinities(read_file(path, kLimitBytes)), overrides, path.string());
}

}  // namespace

DecoderConfig read_decoder_config(const std::filesystem::path& folder, const std::string& overrides) {
  const std::filesystem::path path = folder / "config.json";
  const std::string text = read_config_text(path, overrides);
  DecoderConfig config = parse_decoder_config(text, path.string());
  config.overrides = overrides;
  if (!config.wrapper.empty() && has_weights(folder)) {
    const SafetensorsFolder files = open_weights(folder);
    config.names = wrapper_names(files);
    if (config.files_say_tie) config.tie_word_embeddings = files.find(config.names.in_files(kHead)) == nullptr;
  }
  if (config.wrapper.empty() && !config.architecture->stem_in_files.empty() && has_weights(folder))
    find_stem(open_weights(folder), config.names);
  if (has_stacked_experts(config) && has_weights(folder)) find_stacked_experts(open_weights(folder), config);
  if (config.quantisation) config.linear_storage = storage_of(folder, *config.quantisation);
  const std::filesystem::path generation = folder / "generation_config.json";
  // A link to nothing is there, too, and cannot be read.
  if (std::filesystem::exists(std::filesystem::symlink_status(generation))) {
    const JsonDocument document(read_file(generation, kLimitBytes), generation.string());
    const JsonField json = document.root();
    config.generation = read_generation_defaults(json, config.vocab_size);
  }
  return config;
}

std::string decoder_config_json(const std::filesystem::path& folder, const DecoderConfig& config) {
  const std::filesystem::path path = folder / "config.json";
  std::string text = read_config_text(path, config.overrides);
  if (!config.stored_vocab_size && !config.copies_head && !config.score) return text;
  auto json = parse_json<nlohmann::ordered_json>(text, path.string());
  nlohmann::ordered_json& of_text = config.wrapper.empty() ? json : text_config_of(json);
  of_text["vocab_size"] = config.vocab_size;
  json["tie_word_embeddings"] = of_text["tie_word_embeddings"] = config.tie_word_embeddings;
  if (!config.layers.empty() && config.layers.front().input_width > 0)
    of_text["vocab_size_per_layer_input"] = config.vocab_size;
  of_text.erase(std::string(config.architecture->tie_key));
  if (config.has_new_score) {
    json["architectures"] = {classifier_name(*config.architecture, config.score->is_of_tokens)};
    json["id2label"] = json["label2id"] = nlohmann::ordered_json::object();
    for (int64_t label = 0; label < config.score->labels; ++label) {
      json["id2label"][fmt::format("{}", label)] = fmt::format("LABEL_{}", label);
      json["label2id"][fmt::format("LABEL_{}", label)] = label;
    }
    if (config.score->is_of_tokens) json["token_classification_bias"] = config.score->has_bias;
  }
  if (config.score && config.pad_token_id) json["pad_token_id"] = *config.pad_token_id;
  return json_text(json, 2) + "\n";
}

}  // namespace spillway
