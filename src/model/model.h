// A model of any family: it appends its forward operations to a Graph and describes its weights. Training, planning and
// generation use this interface only. docs/add-a-model.md says how to add one.
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
#include "model/generation_defaults.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "model/score_head.h"
#include "ops/embedding_noise/embedding_noise.h"
#include "tensor/fake_quantisation.h"

namespace spillway {

constexpr int64_t kMaxMlpTiles = 64;

struct ModelOptions {
  DType dtype = DType::kF32;  // of weights and activations
  int64_t tokens = 0;         // T: the capacity of the stream
  // Neighbouring ranks that share each stream: each has some of its rows (rows_of_rank), and computes with those.
  int64_t context_ranks = 1;
  int64_t max_sequences = 1;
  int64_t max_rows = 0;      // of the data, where an objective knows them
  int64_t sequence_len = 0;  // of a usual sequence, for the predicted cost of attention; 0: T
  int64_t text_tokens = 1;   // beside each sequence, of a model of clips
  // The tiles of tokens that a dense feed-forward takes one after the other, so that its width counts for one of them,
  // up to kMaxMlpTiles; 0: a tile for as many tokens as the stream is wide (ALST, arXiv 2506.13996).
  int64_t mlp_tiles = 1;
  bool train_base = false;  // full fine-tuning; false: the base is frozen
  // The names of the weights that full fine-tuning trains; empty: all.
  std::set<std::string, std::less<>> unfrozen;
  std::optional<LoraOptions> lora;
  double neftune_noise_alpha = 0;  // of the noise on embeddings; 0: none
  ops::NoiseLength neftune_length = ops::NoiseLength::kLongestSequence;
  // The coefficient of the load-balancing loss of a mixture's routers in training, 0: none; and whether it reports how
  // evenly its experts are used.
  double router_aux_loss_coef = 0;
  bool reports_expert_load = false;
  std::optional<FakeQuantisation> fake_quantisation;
  // Leaves out the adapter; everything else is computed as beside an adapter of zeros, to the last bit.
  bool adapter_is_off = false;
  std::optional<LinearStorage> linear_storage;  // empty: as the model's files have it
  int stream = 0;                               // of the micro-batch, that the model reads
  // The experts of a mixture have homes of their own (kExpertPart); and an operation takes a few of them.
  bool experts_apart = false, streams_experts = false;
  // The names of weights of which this pass reads frozen copies (Parameter::is_copy): these keep their initial values
  // while the weights are trained.
  std::set<std::string, std::less<>> copies;
  std::string copy_prefix{kCopyPrefix};  // of the names of their values
  std::string copy_part;                 // of the groups of their values; empty: as the others'
  // For a model beside another one in a graph: the prefix of the names of its blocks and of its weights' values. The
  // names of its parameters are those of its files.
  std::string prefix;

  // Returns the rows of the stream for which a rank has room.
  [[nodiscard]] int64_t own_tokens() const { return rows_of_rank(tokens, context_ranks); }

  // Returns the options without dropout, noise, steps without fake quantisation, and what a mixture has in training,
  // for all passes that are not differentiated.
  [[nodiscard]] ModelOptions without_dropout() const;
};

// A loss of the model's own, which is differentiated beside that of the objective.
struct ModelLoss {
  ValueId weight = kNone;    // batch value, f32 [1]
  ValueId weighted = kNone;  // f32 [1]: weight times the loss
};

// A number that a model reports of a micro-batch in training.
struct ModelMetric {
  std::string_view key;   // in metrics.jsonl
  ValueId value = kNone;  // f32 or i32 [1]
  bool is_count = false;  // a step has the sum over its micro-batches, not their mean
};
// The key of the metric that counts, over the layers of a mixture of experts, those that some token has reached.
inline constexpr std::string_view kExpertsReached = "experts_reached";

// A model in a graph.
struct ModelGraph {
  std::vector<BatchColumn> columns;  // that it reads
  ValueId dropout_seed = kNone;      // batch value, i64 [1], below 0 for none; absent without dropout and noise
  ValueId fake_quantises = kNone;    // batch value, i64 [1], 0 for no fake quantisation; absent if that begins at once
  ValueId hidden = kNone;            // what it computes for each row of the stream: [T, width], before any head
  ValueId head = kNone;       // of a model of text: [vocab_size, width], perhaps the embedding; or [labels, width]
  ValueId head_bias = kNone;  // [labels], of scores that have one
  // Above 0: tokens are predicted by logit_cap * tanh(l / logit_cap) in place of the logits l = x head^T.
  double logit_cap = 0;
  std::optional<ModelLoss> router_loss;  // where ModelOptions::router_aux_loss_coef asks for it
  std::vector<ModelMetric> metrics;
  ParameterTable parameters;
};

// The properties of a model of clips: videos as latents, each with a text that was embedded before.
struct VideoModel {
  int64_t in_channels = 0, out_channels = 0;  // of latents; those that it reads alone describe a first frame
  std::array<int64_t, 3> patch = {1, 1, 1};   // frames, rows, columns
  int64_t max_positions = 0;                  // patches along an axis
  int64_t heads = 0;                          // of attention
  int64_t text_width = 0;
  int64_t image_width = 0;                // of the features of an image; 0: it reads none
  int64_t timestep_size = 0;              // of a timestep's embedding
  std::vector<std::string> lora_targets;  // of a config that names none

  [[nodiscard]] int64_t patch_elems() const { return patch[0] * patch[1] * patch[2]; }
};

class Model;
class TextModel;
struct DecoderLayer;
using ModelPtr = std::shared_ptr<const Model>;

class Model {
 public:
  virtual ~Model() = default;

  // Appends the inputs, the weights and the forward operations. Adds the graph's first axis, the tokens. Each repeated
  // part is one block of the graph, which can be recomputed but for what other blocks read of it: its output, and keys
  // and values that several layers share.
  [[nodiscard]] virtual ModelGraph build(Builder& builder, const ModelOptions& options) const = 0;

  // The dtype in the config; that of the files takes precedence.
  [[nodiscard]] virtual std::optional<DType> dtype() const = 0;
  // Returns the text of FOLDER/config.json, adapted to this model.
  [[nodiscard]] virtual std::string config_json(const std::filesystem::path& folder) const = 0;
  // Throws InputError if training would need something that is not implemented, such as a dropout, but inference would
  // not.
  virtual void check_trains() const {}

  // Null for a model that reads no text.
  [[nodiscard]] virtual const TextModel* text() const { return nullptr; }
  // Null for a model that reads no clips.
  [[nodiscard]] virtual const VideoModel* video() const { return nullptr; }
};

// The programs of generation. The states of layers (model/decoder/layer.h), such as the keys and values of all previous
// tokens, stay in caches (ValueKind::kCache) that several sequences share, each with consecutive rows of its own. A run
// takes a stream of new tokens of any of them.
enum class CacheUse : uint8_t {
  kPrompt,  // many tokens of a sequence at a time, for their keys and values alone; and copies of these
  kDecode,  // one token a sequence, and the logits of what follows it
};

struct CachedModelGraph {
  int64_t rows = 0;           // of each cache
  ValueId ids = kNone;        // i32 [T]
  ValueId positions = kNone;  // i32 [T]
  ValueId first = kNone;      // i32 [T]: the row of the caches of the first token of the token's sequence
  ValueId own = kNone;        // i32 [T]: the token's own row
  // i32 [T]: the row of the token's sequence in states that have a row for each sequence; kNone: there are none. A
  // state begins anew at position 0.
  ValueId slots = kNone;
  ValueId logits = kNone;  // f32 [T, vocab_size], of kDecode
  // A section of kPrompt that copies, for each token, row `first` of all caches to row `own`. REQUIRES: both are in the
  // caches, and no row is copied that another replaces.
  SectionId copy = 0;
  // i32 [T], of kPrompt where `slots` is there: the rows that a section copies to rows `slots`, of the states that have
  // a row for each sequence.
  ValueId copied_slots = kNone;
  SectionId copy_sequences = 0;
  ParameterTable parameters;
};

// The initial weights of a new model in transformers: normal numbers for matrices, zeros for biases.
struct FreshWeights {
  double deviation = 0.02;
  double norm = 1;                     // the weights of norms
  std::optional<int64_t> cleared_row;  // of the embedding, which is zero: that of the padding token
};

// A model that reads text, and predicts tokens or scores texts.
class TextModel : public Model {
 public:
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t max_position_embeddings = 0;
  GenerationDefaults generation;
  std::optional<ScoreHead> score;  // it predicts no tokens
  // The coefficient of the load-balancing loss that its config.json asks for, 0: it asks for none; empty: the model has
  // no such loss.
  std::optional<double> router_aux_loss_coef;
  // The one that its config.json names, whether or not it asks for the loss: TRL adds the loss by that.
  double named_router_coef = 0;
  // The class of the larger model that it is the text part of, "Gemma3ForConditionalGeneration"; empty: it stands
  // alone.
  std::string wrapper;
  FreshWeights fresh;

  [[nodiscard]] const TextModel* text() const final { return this; }
  [[nodiscard]] virtual const std::vector<DecoderLayer>& layers() const = 0;
  // Builds a program of generation with `rows` rows in each cache with a row for each token, and options.max_sequences
  // rows in those with a row for each sequence; options.sequence_len bounds sequences here. A graph for kPrompt adopts
  // one for kDecode, which has all weights.
  [[nodiscard]] virtual CachedModelGraph build_cached(Builder& builder, const ModelOptions& options, int64_t rows,
                                                      CacheUse use) const = 0;
  // Returns the model with more tokens than its files have rows for.
  [[nodiscard]] virtual ModelPtr with_vocab_size(int64_t rows) const = 0;
  // Returns the model with a score head instead of predicting tokens, or this one if it has the same kind of score;
  // otherwise the score is new. Its config.json names the padding, by which transformers finds the last token of a
  // sequence.
  [[nodiscard]] virtual ModelPtr with_score(const ScoreHead& head, std::optional<int64_t> pad_token_id) const = 0;
  // Returns the model with a separate head that starts as the embedding; null if its head is not tied to it.
  [[nodiscard]] virtual ModelPtr with_own_head() const = 0;
};

// Reads the model in a Hugging Face folder, with `overrides` of its config.json (model/config_overrides.h). Reads no
// weights. Throws InputError.
[[nodiscard]] ModelPtr read_model(const std::filesystem::path& folder, const std::string& overrides = {});

// Returns the parameters of a model without its graph; they have no values. Uses only `dtype`, `train_base`,
// `unfrozen`, `lora` and `linear_storage` of the options.
[[nodiscard]] ParameterTable parameters_of(const Model& model, ModelOptions options = {});

// Returns the properties of a text model. Throws InputError at `where` (a config key) for a model that reads no text.
[[nodiscard]] const TextModel& text_of(const Model& model, std::string_view where);
// Throws InputError at `where` (a key, or the folder of a model or adapter) for a model that scores instead of
// predicting tokens.
void check_predicts_tokens(const TextModel& text, std::string_view where);

}  // namespace spillway
