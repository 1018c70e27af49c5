// A model of any family: it appends its forward operations to a Graph and says what its weights are. Training, planning
// and generation know no more of it. docs/add-a-model.md says how to add one.
//
// A model is immutable, and any thread may use it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "model/column.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "model/score_head.h"

namespace spillway {

struct ModelOptions {
  DType dtype = DType::kF32;  // of weights and activations
  int64_t tokens = 0;         // T: the capacity of the stream
  int64_t max_sequences = 1;
  int64_t max_rows = 0;      // of the data, where an objective knows them
  int64_t sequence_len = 0;  // of a usual sequence, for the predicted cost of attention; 0: T
  int64_t text_tokens = 1;   // beside each sequence, of a model of clips
  bool train_base = false;   // full fine-tuning; false: the base is frozen
  // In full fine-tuning the weights that are trained, by their names; empty: all.
  std::set<std::string, std::less<>> unfrozen;
  std::optional<LoraOptions> lora;
  double neftune_noise_alpha = 0;  // of the noise on embeddings; 0: none
  // The adapter is left out; everything else is computed as beside one of zeros, to the last bit.
  bool adapter_is_off = false;
  std::optional<LinearStorage> linear_storage;  // empty: as the model's files have it
  int stream = 0;                               // of the micro-batch, that the model reads
  // Weights, by their names, of which this pass reads frozen copies (Parameter::is_copy): they stay what they were at
  // first while the weights of these names are trained.
  std::set<std::string, std::less<>> copies;
  std::string copy_prefix{kCopyPrefix};  // of the names of their values
  std::string copy_part;                 // of the groups of their values; empty: as the others'
  // Of a model beside another one in a graph: what the names of its blocks and of its weights' values begin with. The
  // names of its parameters are those of its files.
  std::string prefix;

  // Without dropout and noise: for all but the pass that gradients are taken of.
  [[nodiscard]] ModelOptions without_dropout() const;
};

// A model in a graph.
struct ModelGraph {
  std::vector<BatchColumn> columns;  // that it reads
  ValueId dropout_seed = kNone;      // batch value, i64 [1], below 0 for none; absent without dropout and noise
  ValueId hidden = kNone;            // what it computes for each row of the stream: [T, width], before any head
  ValueId head = kNone;       // of a model of text: [vocab_size, width], perhaps the embedding; or [labels, width]
  ValueId head_bias = kNone;  // [labels], of scores that have one
  // Above 0: what predicts tokens is not a logit l, x head^T, but logit_cap * tanh(l / logit_cap).
  double logit_cap = 0;
  ParameterTable parameters;
};

// For generation: keys and values of all tokens before stay in caches (kCache, "cache.layers.0.key") that several
// sequences share, each with consecutive rows of its own. A run takes a stream of new tokens of any of them.
enum class CacheUse : uint8_t {
  kPrompt,  // many tokens of a sequence at a time, for their keys and values alone; and copies of these
  kDecode,  // one token a sequence, and the logits of what follows it
};

struct CachedModelGraph {
  ValueId ids = kNone;        // i32 [T]
  ValueId positions = kNone;  // i32 [T]
  ValueId first = kNone;      // i32 [T]: the row of the caches of the first token of the token's sequence
  ValueId own = kNone;        // i32 [T]: the token's own row
  ValueId logits = kNone;     // f32 [T, vocab_size], of kDecode
  // Of kPrompt: the row `own` of all caches becomes what the row `first` is, for each token; both are in the caches,
  // and no row is copied that another replaces.
  SectionId copy = 0;
  ParameterTable parameters;
};

// What a model of text says of it.
// What transformers fills the weights of a new model with: matrices with normal numbers, biases with zeros.
struct FreshWeights {
  double deviation = 0.02;
  double norm = 1;                     // the weights of norms
  std::optional<int64_t> cleared_row;  // of the embedding, which is zero: that of the padding token
};

struct TextModel {
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t max_position_embeddings = 0;
  double repetition_penalty = 1;   // of generation; 1: none
  std::optional<ScoreHead> score;  // it predicts no tokens
  // What it is the text part of, "Gemma3ForConditionalGeneration"; empty: it stands alone.
  std::string wrapper;
  FreshWeights fresh;
};

// What a model of clips says of it: videos as latents, each beside a text that was embedded before.
struct VideoModel {
  int64_t in_channels = 0, out_channels = 0;  // of latents; those that it reads alone describe a first frame
  std::array<int64_t, 3> patch = {1, 1, 1};   // frames, rows, columns
  int64_t max_positions = 0;                  // patches along an axis
  int64_t text_width = 0;
  int64_t image_width = 0;                // of the features of an image; 0: it reads none
  int64_t timestep_size = 0;              // of a timestep's embedding
  std::vector<std::string> lora_targets;  // of a config that names none

  [[nodiscard]] int64_t patch_elems() const { return patch[0] * patch[1] * patch[2]; }
};

class Model;
using ModelPtr = std::shared_ptr<const Model>;

class Model {
 public:
  virtual ~Model() = default;

  // Appends the inputs, the weights and the forward operations. Adds the graph's first axis, the tokens. Each part that
  // repeats is one block of the graph, and reads nothing of another block but its output, so that a block can be
  // recomputed.
  [[nodiscard]] virtual ModelGraph build(Builder& builder, const ModelOptions& options) const = 0;

  // As the config says; what the files really hold counts more.
  [[nodiscard]] virtual std::optional<DType> dtype() const = 0;
  // The text of FOLDER/config.json, changed as far as this model is not the folder's.
  [[nodiscard]] virtual std::string config_json(const std::filesystem::path& folder) const = 0;
  // Throws InputError where training would compute what is not computed here, and everything else would not: a dropout.
  virtual void check_trains() const {}
  // For each block how many tokens a query sees, itself included; 0: all before it. Empty: all, in every block.
  [[nodiscard]] virtual std::vector<int64_t> attention_windows() const { return {}; }

  // Null for a model that reads no text, which need not have what follows.
  [[nodiscard]] virtual const TextModel* text() const { return nullptr; }
  // Null for a model that reads no clips.
  [[nodiscard]] virtual const VideoModel* video() const { return nullptr; }
  // `rows` of each cache; options.sequence_len bounds sequences here. A graph for kPrompt adopts one for kDecode, which
  // has all weights.
  [[nodiscard]] virtual CachedModelGraph build_cached(Builder& builder, const ModelOptions& options, int64_t rows,
                                                      CacheUse use) const;
  // The model with more tokens than its files have rows for.
  [[nodiscard]] virtual ModelPtr with_vocab_size(int64_t vocab_size) const;
  // The model that scores in place of predicting tokens, or this one where it does so in the same way; else its score
  // is new. Padding is named in its config.json, by which transformers finds the last token of a sequence.
  [[nodiscard]] virtual ModelPtr with_score(const ScoreHead& head, std::optional<int64_t> pad_token_id) const;
  // The model whose head is a weight of its own that starts as the embedding; null where that is not tied to it.
  [[nodiscard]] virtual ModelPtr with_own_head() const { return nullptr; }
};

// The model in a Hugging Face folder, whose config.json is read with `overrides` (model/config_overrides.h). No weights
// are read. Throws InputError.
[[nodiscard]] ModelPtr read_model(const std::filesystem::path& folder, const std::string& overrides = {});

// The parameters of a model without its graph; they have no values. Of the options only `dtype`, `train_base`,
// `unfrozen`, `lora` and `linear_storage` matter.
[[nodiscard]] ParameterTable parameters_of(const Model& model, ModelOptions options = {});

// What a model of text says of it. Throws InputError at `where` (a config key) for a model that reads none.
[[nodiscard]] const TextModel& text_of(const Model& model, std::string_view where);
// Throws InputError at `where` (a key, or the folder of a model or adapter) for a model that scores in place of
// predicting tokens.
void check_predicts_tokens(const TextModel& text, std::string_view where);

}  // namespace spillway
