// The values of a config, key by key, as its files and command line say them: axolotl's keys and TRL's, their meaning
// and their defaults, which are declared in keys/. std::optional is of keys that may be left out without a value of
// their own; everything else holds the default until a key sets it. resolve.h makes a Config of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/online_settings.h"
#include "data/dataset_options.h"
#include "text/tokenizer.h"

namespace spillway::config {

enum class Adapter { kNone, kLora, kQlora };
enum class WeightType { kAuto, kF32, kBf16, kF16 };
enum class StoredFormat : uint8_t { kAny, kMxfp4, kFp8 };  // of a base, in its files
enum class Rl { kNone, kDpo, kIpo, kSimpo, kCpo, kOrpo, kKto, kGrpo, kGdpo, kRloo, kOnlineDpo, kPpo };
enum class AutoBool { kFalse, kTrue, kAuto };
enum class Bf16 { kFalse, kTrue, kAuto, kFull };
enum class Checkpointing { kAuto, kOff, kOn, kOffload, kOffloadDisk };  // kAuto: the plan decides
enum class LayerOffloading { kOff, kHost, kDisk };
enum class IntervalStrategy { kNo, kSteps, kEpoch };
enum class SaveStrategy { kNo, kSteps, kEpoch, kBest };
enum class PackingScope { kBatch, kDataset };  // which rows TRL's packing looks at together: 1000, or all
// One after another, or all in a layer before the next; or the plan chooses.
enum class MicroBatchOrder { kAuto, kHorizontal, kVertical };
enum class SamplingStrategy { kRandom, kSequential, kGroupByLength };
// The stages of ZeRO, each of which splits more over the ranks; kAuto: the plan decides.
enum class ZeroStage { kNothing, kOptimizerState, kGradients, kWeights, kAuto };
enum class GradientReduction { kOrdered, kByHost };  // what is added first: all in order, or what a host's ranks have

using data::DatasetConfig;
using data::DatasetType;
using data::ExcessLength;
using data::LengthRules;
using data::PackingStrategy;
using SpecialTokens = text::SpecialTokenNames;
using data::TrainOnEos;
using data::TruncationMode;

// Keys that replace those of config.json: a JSON object as text, with its keys in order; empty: none.
struct ConfigOverrides {
  std::string json;
};

// accelerate's budgets: a device's number, `cpu` or `disk` -> a size as written.
struct MaxMemory {
  std::map<std::string, std::string, std::less<>> sizes;
};

// A section in another program's words; what it says is merged into our keys before they are read.
struct ForeignSection {};

// lr_scheduler_kwargs: texts, as which options there are, and what they take, the schedule says.
struct SchedulerArg {
  std::string name, text;
  std::string where;  // for messages
};
struct SchedulerArgs {
  std::vector<SchedulerArg> items;
};

// FastVideo's words for gradient_checkpointing.
enum class VideoCheckpointing { kNone, kFull };

enum class MixedPrecision { kNo, kBf16, kF16 };

// A number of steps, of which false says 0: axolotl's schema reads a truth value as a number.
struct StepsOrFalse {
  int64_t count = 0;
};

#include "config/keys/spelled_begin.inc"
// An entry of `datasets` and its like.
struct SpelledDataset {
  DatasetConfig config;
#include "config/keys/datasets.def"
};

// The value of every key: what the config says, else the default. The structs that it inherits are those of keys that
// need no resolving, and the members before the sections are of other folders.
struct Spelled : ModelKeys,
                 OptimizerKeys,
                 OutputKeys,
                 DistillationSettings,
                 QatSettings,
                 PreferenceKeys,
                 CompletionKeys,
                 ReinforcementKeys,
                 PpoKeys,
                 VideoKeys {
  SpecialTokens special_tokens;
  rewards::TokenAdvantageOptions advantages;
  data::FlowOptions flow;
  data::RowOptions rows;

#include "config/keys/adapter.def"
#include "config/keys/batches.def"
#include "config/keys/completions.def"
#include "config/keys/data.def"
#include "config/keys/distillation.def"
#include "config/keys/fastvideo.def"
#include "config/keys/memory.def"
#include "config/keys/model.def"
#include "config/keys/optimisation.def"
#include "config/keys/output.def"
#include "config/keys/ppo.def"
#include "config/keys/preferences.def"
#include "config/keys/qat.def"
#include "config/keys/quantised_base.def"
#include "config/keys/ranks.def"
#include "config/keys/reinforcement.def"
#include "config/keys/rewards.def"
#include "config/keys/video.def"

  // Whether a section of another program names the tier, but leaves to the plan what goes there.
  bool uses_host = false, uses_disk = false;
  bool is_deepspeed_optimizer = false;  // whether DeepSpeed's section makes the optimizer

  Spelled();
  Spelled(const Spelled&);
  Spelled(Spelled&&) noexcept;
  Spelled& operator=(const Spelled&);
  Spelled& operator=(Spelled&&) noexcept;
  ~Spelled();
};
#include "config/keys/end.inc"

// Returns the kind of rows of the config's objective (`rl`, `reward_model`).
[[nodiscard]] data::Objective objective_of(const Spelled& keys);
// Returns true if rows lend each other their completions: of kto, but for the loss that estimates no KL.
[[nodiscard]] inline bool lends_completions(const Spelled& keys) {
  return keys.rl == Rl::kKto && (keys.dpo_loss_type.empty() || keys.dpo_loss_type.front() == "kto");
}
// Returns true if the run makes the completions that it is trained on.
[[nodiscard]] inline bool is_online(const Spelled& keys) {
  return keys.rl == Rl::kGrpo || keys.rl == Rl::kGdpo || keys.rl == Rl::kRloo || keys.rl == Rl::kOnlineDpo ||
         keys.rl == Rl::kPpo;
}
// Returns true if the config trains by preferences: `rl` or a reward model.
[[nodiscard]] inline bool has_preferences(const Spelled& keys) {
  return (keys.rl != Rl::kNone && !is_online(keys)) || keys.reward_model || keys.process_reward_model;
}
// Returns true if lora_dropout is not used: as the config says or, where it does not, as each of TRL's trainers has
// it. PPO's has none in any case.
[[nodiscard]] inline bool disables_dropout(const Spelled& keys) {
  if (keys.rl == Rl::kPpo) return true;
  const bool compares = has_preferences(keys) || keys.rl == Rl::kOnlineDpo;
  return (compares || is_online(keys)) && keys.disable_dropout.value_or(compares);
}

}  // namespace spillway::config
