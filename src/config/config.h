// The resolved config: one struct a subject, which is handed on whole to the code of that subject. No
// alias of a key is left, and nothing here is made something else later; config/spelled.h has what the keys say, and
// config/load.h makes this of it. Large subjects have headers of their own; what concerns the data and rewards is
// declared beside the code that reads it, data/data_settings.h and rewards/reward_settings.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/online_settings.h"
#include "config/preference_settings.h"
#include "config/video_settings.h"
#include "data/data_settings.h"
#include "graph/graph.h"
#include "rewards/reward_settings.h"
#include "schedules/schedule.h"
#include "tensor/dtype.h"
#include "tensor/fake_quantisation.h"
#include "tensor/quantised_format.h"
#include "text/tokenizer.h"

namespace spillway::config {

// By the name of its OptimizerDef (ops/optimizers/): several words of configs mean one.
struct Optimizer {
  std::string_view name = "adamw";
  // Where its state lives is the plan's choice, under memory.plan: fixed, too: OffloadSettings says so, and Config's
  // own optimizer is the plain one.
  bool paged = false;
  bool warms_up = false;  // over warmup_steps, whatever the schedule does (ScheduleSettings::optimizer_warmup)
  bool operator==(const Optimizer&) const = default;
};
// By the name of its ScheduleDef (schedules/).
struct LrScheduler {
  std::string_view name = "cosine";
  bool operator==(const LrScheduler&) const = default;
};
enum class ActivationOffloading { kOff, kHost, kLegacy, kDisk, kHiddenStates };
enum class Offload { kNone, kHost, kDisk, kAuto };  // kAuto: the plan decides, under memory.plan: fixed, too
enum class SavedOutputs { kAttention, kProducts };  // entries of selective_checkpointing.save
// Entries of selective_checkpointing.recompute_layer_types; kOther: of models that are not supported.
enum class LayerType { kFullAttention, kSlidingAttention, kOther };
enum class PlanMode { kAuto, kFixed };

// The training loss of text: cross-entropy per token, optionally weighted by the token's probability (TRL's dft) or by
// the entropy of the likeliest tokens (axolotl's EAFT).
enum class TextLoss : uint8_t { kCrossEntropy, kWeightedByProbability, kWeightedByEntropy };
// The weight of a token's loss in EAFT: the entropy of the `top` likeliest tokens, to the power of `alpha`.
struct EntropyWeight {
  double alpha = 1;
  int64_t top = 20;
};

enum class FakeDtype { kInt4, kInt8, kFloat8, kNvfp4, kMxfp4 };  // axolotl's TorchAOQuantDType

#include "config/keys/settings_begin.inc"
struct ModelKeys {
#include "config/keys/model.def"
};
struct OptimizerKeys {
#include "config/keys/optimisation.def"
};
// Settings of learning from a teacher.
struct DistillationSettings {
#include "config/keys/distillation.def"
};
// Settings of quantisation-aware training.
struct QatSettings {
#include "config/keys/qat.def"
};
struct OutputKeys {
#include "config/keys/output.def"
};
#include "config/keys/end.inc"

// Settings of LISA, which trains some of a model's layers at a time.
struct LisaSettings {
  int64_t layers = 1;            // at a time
  int64_t interval = 1;          // in steps, between draws
  std::string layers_attribute;  // the list of layers: "model.layers"
};

struct ModelSettings : ModelKeys {
  std::string config_overrides;        // a JSON object of what replaces keys of its config.json; empty: nothing does
  bool bf16 = true;                    // frozen weights, working copies and activations; else all is f32
  bool masters = true;                 // bf16 weights that are trained have f32 masters
  std::optional<DType> written_dtype;  // of a model that is trained whole; empty: each weight as its base has it
  bool dequantize = false;             // weights that are mxfp4 or fp8 in files are dense in the run
  std::optional<WeightCoding> stored_coding;  // what a key says that they are in files: mxfp4 or fp8
  bool adds_router_loss = false;              // the load-balancing loss has config.json's coefficient, asked for or not
  double neftune_noise_alpha = 0;             // of the noise on embeddings while weights are trained; 0: none
  std::optional<QatSettings> qat;
  // In full fine-tuning, what is trained: patterns for the starts of names, perhaps with rows behind them,
  // "^model.embed_tokens.weight$[128:]", as axolotl takes them. Empty: everything.
  std::vector<std::string> unfrozen_parameters;
  std::optional<LisaSettings> lisa;
};

// Returns the formats that the keys ask for. REQUIRES: they were resolved.
[[nodiscard]] FakeQuantisation fake_quantisation_of(const QatSettings& qat);

struct TokenizerSettings {
  std::string folder;
  text::SpecialTokenNames special_tokens;
  // Their tokens must be of the vocabulary already: TRL's keys add none.
  bool knows_eos_token = false, knows_pad_token = false;
  bool resize_token_embeddings_to_32x = false;
};

// Names of modules, or one pattern that whole paths match, as PEFT takes them.
struct TargetModules {
  std::vector<std::string> names;
  std::string pattern;

  [[nodiscard]] bool empty() const { return names.empty() && pattern.empty(); }
};

// A number for the modules that a pattern means: a regular expression for the end of a path behind a dot, or all of it.
struct PatternNumber {
  std::string pattern;
  double number = 0;
  std::string where;  // for messages
};

// The initial values of a fresh adapter's factors: PEFT's init_lora_weights.
enum class LoraStart { kUniform, kGaussian, kPissa, kOlora, kLoftq };
struct LoraInit {
  LoraStart start = LoraStart::kUniform;
  std::optional<int64_t> iterations = {};  // of a randomised decomposition: pissa_niter_N
  bool operator==(const LoraInit&) const = default;
};

// The moments of the optimizer that stay when an adapter restarts: the largest, or a random choice.
enum class PruneMethod : uint8_t { kMagnitude, kRandom, kReset };

// ReLoRA: at every restart of the learning rate the adapter is merged into its base and begins anew.
struct RestartSettings {
  PruneMethod prune_method = PruneMethod::kMagnitude;
  double prune_ratio = 0;  // the share of moments that are set to zero
};

// Settings of LoRA. With a model_dir, rank and alpha are 0 where that folder alone says them.
struct AdapterSettings {
  int64_t r = 0;
  double alpha = 0;
  double dropout = 0;
  bool rslora = false, dora = false;
  bool says_dropout = false, disables_dropout = false;  // whether a key says `dropout`; whether nothing is dropped
  TargetModules target_modules;                // empty, without target_linear: q_proj and v_proj, or those of model_dir
  bool target_linear = false;                  // all linear modules but the head
  std::vector<std::string> target_parameters;  // tensors of mixtures
  std::vector<PatternNumber> rank_pattern, alpha_pattern;  // of several that match the first counts
  std::vector<int64_t> layers_to_transform;                // empty: all
  std::vector<std::string> layers_pattern;                 // names of the list of layers; empty: any
  LoraInit init;
  std::optional<int64_t> loftq_bits;        // of loftq's base, where that is not quantised otherwise
  std::optional<double> loraplus_lr_ratio;  // B's learning rate over A's (LoRA+)
  std::vector<std::string> modules_to_save;
  std::string model_dir;                    // the adapter to start from; empty: a fresh one
  std::optional<RestartSettings> restarts;  // then ScheduleSettings has some, too
};

// Linear layers but the head are quantised as they are loaded.
struct QuantisationSettings {
  WeightCoding coding = WeightCoding::kNf4;
  bool double_quant = true;  // of 4 bits
  bool has_experts = false;  // the experts of mixtures are, too
  // Modules that are not: regular expressions for the start of a path up to a dot or its end, or its end as it is.
  std::vector<std::string> skip_modules;
};

// The keys of quantisation that a config gives, whether or not it asks for any. Files that are quantised already must
// agree with them.
template <typename Value>
struct SaidValue {
  Value value;
  std::string where;
};
struct SaidQuantisation {
  std::optional<SaidValue<WeightCoding>> quant_type;
  std::optional<SaidValue<bool>> double_quant;
  std::optional<SaidValue<std::vector<std::string>>> skip_modules;
};

// The ranks: processes that train one job together, in groups of neighbours that share each micro-batch. Micro-batch i
// of a step is that of group i mod groups().
struct RankSettings {
  int64_t count = 1;
  int64_t context = 1;            // ranks of such a group; divides `count`
  double timeout_seconds = 1800;  // without a sign of life of a rank, after which the others end
  // What is split over several ranks: nothing (0), the optimizer's state (1), gradients too (2), weights too (3).
  int zero_stage = 0;
  bool chooses_stage = false;   // the plan takes stage 3 if nothing that sends less fits
  int64_t copies = 1;           // groups of neighbouring ranks, of which each has all of what is split
  bool shards_by_host = false;  // one for each host, which the launcher knows
  bool sums_by_host = false;    // gradients of a host's ranks are added to each other before they go to others
  int64_t together = 1;         // such ranks, neighbours on a host; 1 where all are on one, or sums are in order

  [[nodiscard]] int64_t groups() const { return count / context; }
  // Splits over groups of so many neighbouring ranks, a divisor of `count`. Nothing is split over groups of one.
  void split_over(int64_t shards);
  // Settles what is by host. `neighbours` is the largest size of groups of neighbouring ranks that are each on one
  // host.
  void place_on_hosts(int64_t neighbours);
};

// The sizes of a micro-batch and of a step.
struct BatchSettings {
  int64_t micro_batch_size = 1;             // rows of a micro-batch
  int64_t gradient_accumulation_steps = 1;  // micro-batches of a step, those of all ranks
  int64_t micro_batch_group = 1;            // those of a rank that a plan computes together, layer by layer
  std::vector<int64_t> other_groups;        // that the plan may choose in place of micro_batch_group
  int64_t forward_group = 1;                // the most micro-batches that a pass without a backward pass may compute
  int64_t mlp_tiles = 1;                    // as ModelOptions::mlp_tiles
  int64_t sequence_len = 512;               // tokens of the longest row
  std::string length_key = "sequence_len";  // the key that said so, by its canonical name
  int64_t eval_sequence_len = 0;            // of the longest row of an evaluation; 0: the same
  bool has_single_tokens = false;           // rows may be cut into sequences of one token
  bool is_padding_free = false;             // the config asks for packed or padding-free micro-batches

  // Returns the number of tokens that a micro-batch has room for.
  [[nodiscard]] int64_t tokens() const { return std::max(micro_batch_size * sequence_len, eval_sequence_len); }
};

// Steps, or a share of all steps.
struct StepCount {
  double value = 0;
  bool is_share = false;

  // As keys have it: a value below 1 is a share.
  [[nodiscard]] static StepCount from_key(double value) { return {value, value < 1}; }
  // A share is rounded up, as transformers does.
  [[nodiscard]] int64_t of(int64_t total_steps) const;
};

// The steps over which the learning rate rises.
struct WarmupSteps {
  StepCount count;
  bool is_axolotls = false;            // a share is rounded down, and a single step becomes two
  std::optional<int64_t> max_steps{};  // however long the run is

  [[nodiscard]] int64_t of(int64_t total_steps) const;
};

// The interval of something that happens again and again.
struct Interval {
  enum class Kind { kNever, kSteps, kPerEpoch, kBest };
  Kind kind = Kind::kPerEpoch;
  StepCount step_count;   // of kSteps
  int64_t per_epoch = 1;  // of kPerEpoch: how many times

  // It is due after every multiple of the result, at least 1; 0 for never, and for what no number of steps says: kBest,
  // after an evaluation that is the best so far.
  [[nodiscard]] int64_t steps(int64_t total_steps, int64_t steps_per_epoch) const;
};

struct ScheduleSettings {
  double num_epochs = 1;
  std::optional<int64_t> max_steps;  // wins over num_epochs
  double learning_rate = 0;
  LrScheduler lr_scheduler;
  schedules::ScheduleOptions options;  // of the schedule, with those by default
  WarmupSteps warmup;
  WarmupSteps optimizer_warmup;  // schedules::ScheduleSpan::rise_steps
  std::optional<schedules::JaggedRestarts> restarts;
};

// An option of an optimizer; which there are, and in which bounds, its OptimizerDef says.
struct OptimArg {
  std::string name;
  double value = 0;   // a truth value is 0 or 1
  std::string where;  // for messages
};
struct OptimArgs {
  std::vector<OptimArg> items;
};

// Weights that have a learning rate of their own: those that have one of `modules` in their names.
struct LrGroup {
  std::string name;
  std::vector<std::string> modules;
  double lr = 0;
  std::string where;  // for messages
};

// Learning rates by group: axolotl's embedding_lr, embedding_lr_scale and lr_groups. Embeddings, heads and modules that
// an adapter trains in full are a group of their own, without weight decay.
struct LrGroups {
  double learning_rate = 0, embedding_lr = 0;
  std::vector<LrGroup> groups;  // of weights that decay
};

// The numbers of an optimizer that no key says are its own.
struct OptimizerSettings : OptimizerKeys {
  Optimizer optimizer;
  OptimArgs args;
  bool decays_all = false;            // norms and biases, too
  std::optional<LrGroups> lr_groups;  // none: all weights learn at one rate, but for LoRA+
};

// The choice of the best evaluation, and its consequences. As in transformers.
struct BestSettings {
  std::string metric = "loss";  // without "eval_"
  bool greater_is_better = false;
  bool is_kept = false;             // its checkpoint is not removed
  bool is_loaded = false;           // its weights are those that the run ends with
  std::optional<int64_t> patience;  // evaluations without a better one after which the run ends
};

// The pushes of a run to the Hugging Face hub: of its result always, of checkpoints as the strategy says.
enum class HubStrategy { kEnd, kEverySave, kCheckpoint, kAllCheckpoints };
struct HubSettings {
  std::string id, revision;  // org/name, or a name among those of the token's owner; empty revision: main
  HubStrategy strategy = HubStrategy::kEverySave;
  bool is_private = false;
  bool waits = false;  // for the push of a checkpoint before the next one's
  std::string token;   // empty: that of the environment
};

// Steps in a row with a loss above the threshold after which the run ends.
struct LossWatchdog {
  double threshold = 0;
  int64_t patience = 3;
};

// The files of a run, and when they are written. The end of a run always saves and, with rows for it, evaluates.
struct OutputSettings : OutputKeys {
  StepCount logging_steps{.value = 1};
  Interval save, evaluate;
  bool tensorboard = false;  // event files in OUTPUT/runs
  BestSettings best;
  std::optional<LossWatchdog> loss_watchdog;
  std::optional<HubSettings> hub;  // none: nothing leaves this machine
};

// Prompts that the model answers while it is trained.
struct SampleSettings {
  int64_t every_steps = 0;  // 0: never
  std::vector<std::string> prompts;
  int64_t max_new_tokens = 64;
};

// The budget of a tier.
struct TierBudget {
  std::string size;       // bytes, `12GiB`, or `80%` of a machine that is not known here; empty: what is free
  std::string key;        // that it came from, as a command line takes it
  bool is_asked = false;  // the tier is used, even where nothing says how much of it
};

struct MemorySettings {
  TierBudget device{.key = "memory.device"}, host{.key = "memory.host"}, disk{.key = "memory.disk"};
  std::vector<std::string> disk_paths;  // folders of the disk tier
  bool disks_are_named = false;         // by the config; else they are OUTPUT/scratch
  bool disk_checksum = false;
};

// A bool or a mapping, as in axolotl.
struct SelectiveCheckpointing {
  bool enabled = false;
  std::vector<SavedOutputs> save = {SavedOutputs::kAttention};
  bool offload = false;              // what is saved does not stay in device memory
  bool save_sliding_window = false;  // in layers of all types
  std::vector<LayerType> recompute_layer_types = {LayerType::kSlidingAttention};  // nothing is saved in these
};

// The parts of a plan that keys fix. An empty home is left to `plan`: under kAuto the planner's choice, under kFixed
// the device.
struct OffloadSettings {
  PlanMode plan = PlanMode::kAuto;
  bool has_frozen_weights = false;             // an adapter is trained beside them
  std::optional<bool> gradient_checkpointing;  // none: as an empty home
  SelectiveCheckpointing selective_checkpointing;
  std::optional<ActivationOffloading> activations;
  std::map<ValueKind, Offload> homes;  // of weights, gradients and states of blocks
  std::optional<Offload> experts;      // of a mixture; none: as the other weights of their blocks

  [[nodiscard]] std::optional<Offload> home_of(ValueKind kind) const {
    const auto found = homes.find(kind);
    return found == homes.end() ? std::nullopt : std::optional(found->second);
  }
};

struct Config {
  ModelSettings model;
  TokenizerSettings tokenizer;
  std::optional<AdapterSettings> adapter;  // none: all weights are trained
  std::optional<QuantisationSettings> quantisation;
  SaidQuantisation said_quantisation;
  TextLoss text_loss = TextLoss::kCrossEntropy;
  EntropyWeight entropy_weight;  // of TextLoss::kWeightedByEntropy
  double label_smoothing = 0;    // of the cross-entropy of text
  std::optional<DistillationSettings> distillation;
  // At most one of these; without both, text is learned.
  std::optional<PreferenceSettings> preference;
  std::optional<OnlineSettings> online;
  std::optional<rewards::RewardSettings> rewards;  // of completions that the model generates
  VideoSettings video;                             // of a model that reads clips
  data::DataSettings data;
  RankSettings ranks;
  BatchSettings batches;
  ScheduleSettings schedule;
  OptimizerSettings optimizer;
  int64_t seed = 42;  // of everything random
  OutputSettings output;
  SampleSettings samples;
  std::string device = "auto";  // or cpu, cuda, cuda:N
  MemorySettings memory;
  OffloadSettings offload;

  // Defined in config.cc: what copies a Config compiles none of its members' copies.
  Config();
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(const Config&);
  Config& operator=(Config&&) noexcept;
  ~Config();
};

}  // namespace spillway::config
