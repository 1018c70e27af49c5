// Preferences: which objective, by which losses, and which keys mean something to it.
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/text.h"
#include "config/keys.h"
#include "config/programs.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

using Kind = PreferenceKind;
using Loss = PreferenceLoss;

// Every loss that can be named, by TRL's names, and whether it reads label_smoothing (TRL 1.16).
struct PreferenceLossName {
  Kind kind;
  std::string_view name;
  Loss loss;
  bool is_smoothed = false;
  bool is_of_scores = false;  // of the difference of a pair's scores alone, which any f-divergence may give
};
constexpr PreferenceLossName kPreferenceLosses[] = {
    {Kind::kDpo, "sigmoid", Loss::kSigmoid, false, true},
    {Kind::kDpo, "hinge", Loss::kHinge, false, true},
    {Kind::kDpo, "ipo", Loss::kIpo, false, true},
    {Kind::kDpo, "exo_pair", Loss::kExoPair, true, true},
    {Kind::kDpo, "nca_pair", Loss::kNcaPair},
    {Kind::kDpo, "robust", Loss::kRobust, true, true},
    {Kind::kDpo, "bco_pair", Loss::kBcoPair},
    {Kind::kDpo, "sppo_hard", Loss::kSppoHard},
    {Kind::kDpo, "aot", Loss::kAot, true},
    {Kind::kDpo, "aot_unpaired", Loss::kAotUnpaired, true},
    {Kind::kDpo, "apo_zero", Loss::kApoZero},
    {Kind::kDpo, "apo_down", Loss::kApoDown},
    {Kind::kDpo, "discopop", Loss::kDiscopop, false, true},
    {Kind::kDpo, "sft", Loss::kSft, false, true},
    {Kind::kDpo, "sigmoid_norm", Loss::kSigmoidNorm, false, true},
    {Kind::kKto, "kto", Loss::kKto},
    {Kind::kKto, "apo_zero_unpaired", Loss::kApoZeroUnpaired},
    {Kind::kCpo, "sigmoid", Loss::kSigmoid, true},
    {Kind::kCpo, "hinge", Loss::kHinge},
    {Kind::kCpo, "ipo", Loss::kIpo},
    {Kind::kCpo, "simpo", Loss::kSimpo, true},
};

// Returns the keys that not every objective of preferences reads.
std::vector<const ConfigKey*> objectives_keys() {
  std::vector<const ConfigKey*> keys;
  for (const KeySection& section : config_sections()) {
    for (const ConfigKey& key : section.keys) {
      if ((key.readers & read_by::kPreferences) != 0) keys.push_back(&key);
    }
  }
  return keys;
}

struct RlName {
  Rl rl;
  Kind kind;
  std::string_view name;
  Loss loss;  // of its own
};
constexpr RlName kRlNames[] = {
    {Rl::kDpo, Kind::kDpo, "dpo", Loss::kSigmoid},      {Rl::kIpo, Kind::kDpo, "ipo", Loss::kIpo},
    {Rl::kSimpo, Kind::kCpo, "simpo", Loss::kSimpo},    {Rl::kCpo, Kind::kCpo, "cpo", Loss::kSigmoid},
    {Rl::kOrpo, Kind::kOrpo, "orpo", Loss::kOddsRatio}, {Rl::kKto, Kind::kKto, "kto", Loss::kKto},
};
constexpr RlName kStepModel = {Rl::kNone, Kind::kSteps, "process_reward_model", Loss::kStepLabels};
constexpr RlName kRewardModel = {Rl::kNone, Kind::kReward, "reward_model", Loss::kBradleyTerry};

const RlName& objective_name(const Spelled& keys) {
  if (keys.reward_model) return kRewardModel;
  if (keys.process_reward_model) return kStepModel;
  return *std::find_if(std::begin(kRlNames), std::end(kRlNames), [&](const RlName& one) { return one.rl == keys.rl; });
}

Loss preference_loss(const Resolution& r, const RlName& objective, const std::string& name) {
  std::vector<std::string_view> names;
  for (const PreferenceLossName& one : kPreferenceLosses) {
    if (one.kind != objective.kind) continue;
    if (one.name == name) return one.loss;
    names.push_back(one.name);
  }
  const std::string_view nearest = nearest_name(name, names);
  throw input_error(r.where("dpo_loss_type"), "expected {} for {}, got {}; {}", joined_names(names), objective.name,
                    quote(name), nearest.empty() ? "write one of them" : fmt::format("did you mean {}?", nearest));
}

std::vector<WeightedLoss> losses_of(const Resolution& r, const RlName& objective) {
  const Spelled& keys = r.keys;
  const bool has_own = objective.rl == Rl::kIpo || objective.rl == Rl::kSimpo;
  r.exclude("rl", has_own, "dpo_loss_type", true);
  std::vector<WeightedLoss> losses;
  const bool may_choose = objective.kind != Kind::kOrpo && !trains_score(objective.kind);
  if (r.given("dpo_loss_type") && may_choose) {
    for (const std::string& name : keys.dpo_loss_type) losses.push_back({preference_loss(r, objective, name)});
  }
  if (losses.empty()) losses.push_back({objective.loss});
  if (objective.kind != Kind::kDpo && losses.size() > 1)
    throw input_error(r.where("dpo_loss_type"), "expected one loss for {}, got {}; only dpo adds several up",
                      objective.name, losses.size());
  if (!r.given("dpo_loss_weights") || objective.kind != Kind::kDpo) return losses;
  if (keys.dpo_loss_weights.size() != losses.size())
    throw input_error(r.where("dpo_loss_weights"),
                      "expected {} numbers, one for each of dpo_loss_type, got {}; write as many, or remove the key",
                      losses.size(), keys.dpo_loss_weights.size());
  for (size_t i = 0; i < losses.size(); ++i) losses[i].weight = keys.dpo_loss_weights[i];
  return losses;
}

bool has_loss(const PreferenceSettings& settings, Loss loss) {
  return std::any_of(settings.losses.begin(), settings.losses.end(),
                     [&](const WeightedLoss& one) { return one.loss == loss; });
}

void check_smoothing(const Resolution& r, const PreferenceSettings& settings) {
  constexpr const char* kKey = "dpo_label_smoothing";
  const double smoothing = settings.label_smoothing;
  if (has_loss(settings, Loss::kExoPair) && (smoothing <= 0 || smoothing >= 1))
    throw input_error(r.where(kKey),
                      "expected a number between 0 and 1 for the loss exo_pair, got {}; set it, to 1e-3 for "
                      "example",
                      smoothing);
  if (has_loss(settings, Loss::kRobust) && smoothing >= 0.5)
    throw input_error(r.where(kKey), "expected a number below 0.5 for the loss robust, got {}; lower it", smoothing);
  const bool is_read =
      std::any_of(std::begin(kPreferenceLosses), std::end(kPreferenceLosses), [&](const PreferenceLossName& one) {
        return one.kind == settings.kind && one.is_smoothed && has_loss(settings, one.loss);
      });
  if (!is_read) r.ignore(kKey, "none of the losses reads it, as in TRL");
}

// Throws InputError for what does not go together. TRL refuses it, too, but for a robust loss with half of the labels
// wrong.
void check_losses(const Resolution& r, const PreferenceSettings& settings) {
  check_smoothing(r, settings);
  if (settings.kind != Kind::kDpo) return;
  if (!has_loss(settings, Loss::kDiscopop)) r.ignore("discopop_tau", "the loss discopop alone reads it");
  if (settings.f_divergence_type != FDivergence::kAlpha)
    r.ignore("f_alpha_divergence_coef", "f_divergence_type: alpha_divergence alone reads it");
  for (const WeightedLoss& one : settings.losses) {
    const PreferenceLossName& loss = *std::find_if(
        std::begin(kPreferenceLosses), std::end(kPreferenceLosses),
        [&](const PreferenceLossName& name) { return name.kind == settings.kind && name.loss == one.loss; });
    const auto refuse = [&](bool is_so, std::string_view key, std::string_view why) {
      if (is_so)
        throw input_error(r.where(key), "expected none beside the loss {}, got one: {}; remove it", loss.name, why);
    };
    refuse(settings.f_divergence_type != FDivergence::kReverseKl && !loss.is_of_scores, "f_divergence_type",
           "that loss does not look at the difference of scores alone");
    refuse(settings.use_weighting && (one.loss == Loss::kAot || one.loss == Loss::kAotUnpaired), "dpo_use_weighting",
           "it sorts the pairs, and their weights would be others'");
  }
}

// KTO pairs each prompt with its neighbour's completion within rows that stand together in the data.
void check_mismatched(const Resolution& r) {
  if (r.keys.micro_batch_size < 2)
    throw input_error(r.where("micro_batch_size"),
                      "expected at least 2 for kto, got {}: its estimate of the KL pairs each prompt with the "
                      "completion of another row; raise it, or set dpo_loss_type: apo_zero_unpaired",
                      r.keys.micro_batch_size);
  const bool is_shuffled =
      r.given("train_sampling_strategy") && r.keys.train_sampling_strategy != SamplingStrategy::kSequential;
  for (const auto& [is_set, key] :
       {std::pair{is_shuffled, "train_sampling_strategy"}, {r.keys.group_by_length, "group_by_length"}}) {
    if (is_set && !r.keys.curriculum_sampling)
      throw input_error(r.where(key),
                        "expected rows in file order for kto, got another order: the rows of a micro-batch lend each "
                        "other their completions; remove the key");
  }
}

void ignore_all(const Resolution& r, std::string_view why) {
  for (const ConfigKey* key : objectives_keys()) {
    if (key->name != "dpo_loss_type" && (key->readers & reader_of(r.keys)) == 0) r.ignore(key->name, why);
  }
}

// axolotl's: what it makes the classifier with.
void check_labels(const Resolution& r, const RlName& objective) {
  const int64_t labels = objective.kind == Kind::kSteps ? 2 : 1, said = r.keys.num_labels.value_or(labels);
  if (said != labels)
    throw input_error(r.where("num_labels"), "expected {} for {}, got {}; remove it", labels, objective.name, said);
}

// The objectives that have the loss, as a config says them.
std::vector<std::string_view> owners_of(std::string_view loss) {
  std::vector<std::string_view> owners;
  for (const RlName& objective : kRlNames) {
    const bool has_loss = std::any_of(std::begin(kPreferenceLosses), std::end(kPreferenceLosses),
                                      [&](const auto& one) { return one.kind == objective.kind && one.name == loss; });
    // ipo and simpo are names of one loss alone.
    if (has_loss && objective.rl != Rl::kIpo && objective.rl != Rl::kSimpo) owners.push_back(objective.name);
  }
  if (is_policy_loss(loss)) owners.emplace_back("grpo");
  return owners;
}

// TRL says by the script what a config trains; here it is a key, and without it all rows would be text.
void check_objective(const Resolution& r) {
  if (program_of(r.loaded) != Program::kTrl) return;
  constexpr std::pair<std::string_view, std::string_view> kSigns[] = {{"trl.reward_funcs", "rl: grpo (or rloo)"},
                                                                      {"num_generations", "rl: grpo (or rloo)"},
                                                                      {"rl_beta", "rl: dpo (or kto, grpo, ...)"}};
  for (const auto& [key, objective] : kSigns) {
    if (r.given(key))
      throw input_error(r.where(key),
                        "expected rl beside it, which says what TRL says by its script, got none; write {}", objective);
  }
}

}  // namespace

uint32_t reader_of(const Spelled& keys) {
  if (keys.reward_model) return read_by::kReward;
  if (keys.process_reward_model) return read_by::kSteps;
  switch (keys.rl) {
    case Rl::kNone:
      return 0;
    case Rl::kDpo:
    case Rl::kIpo:
      return read_by::kDpo;
    case Rl::kSimpo:
    case Rl::kCpo:
      return read_by::kCpo;
    case Rl::kOrpo:
      return read_by::kOrpo;
    case Rl::kKto:
      return read_by::kKto;
    case Rl::kGrpo:
    case Rl::kGdpo:
      return read_by::kGrpo;
    case Rl::kRloo:
      return read_by::kRloo;
    case Rl::kOnlineDpo:
      return read_by::kOnlineDpo;
    case Rl::kPpo:
      break;
  }
  return read_by::kPpo;
}

std::optional<ReferenceSync> resolve_reference_sync(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (!keys.sync_ref_model) {
    for (const char* key : {"ref_model_mixup_alpha", "ref_model_sync_steps"}) r.ignore(key, "sync_ref_model is off");
    return {};
  }
  const auto refuse = [&](bool is_so, std::string_view what, std::string_view why) {
    if (is_so)
      throw input_error(r.where("sync_ref_model"), "expected false beside {}, got true: {}; remove it", what, why);
  };
  refuse(keys.adapter != Adapter::kNone, "an adapter", "its reference does not change, as in TRL");
  refuse(keys.precompute_ref_log_probs, "precompute_ref_log_probs", "no reference is kept");
  return ReferenceSync{keys.ref_model_mixup_alpha, keys.ref_model_sync_steps};
}

TextLoss resolve_text_loss(const Resolution& r) {
  constexpr const char* kKey = "dpo_loss_type";  // TRL's for the loss of text, too
  const std::vector<std::string>& names = r.keys.dpo_loss_type;
  if (has_preferences(r.keys) || is_online(r.keys)) {
    if (r.keys.use_dft) r.ignore("use_dft", "it is a loss of text");
    if (r.keys.use_eaft) r.ignore("use_eaft", "it is a loss of text");
    return TextLoss::kCrossEntropy;
  }
  if (r.keys.use_eaft && (r.keys.use_dft || !names.empty()))
    throw input_error(r.where("use_eaft"), "expected no other loss of text beside it, got {}; remove one",
                      r.keys.use_dft ? "use_dft: true" : "dpo_loss_type: " + print_value(names));
  if (r.keys.use_eaft) return TextLoss::kWeightedByEntropy;
  if (r.keys.use_dft && !names.empty() && names != std::vector<std::string>{"dft"})
    throw input_error(r.where("use_dft"), "expected dpo_loss_type: dft beside it, got {}; remove one",
                      print_value(names));
  if (r.keys.use_dft) return TextLoss::kWeightedByProbability;
  if (names.empty()) return TextLoss::kCrossEntropy;
  if (names.size() > 1)
    throw input_error(r.where(kKey), "expected one loss of text without rl, got {}; name one", names.size());
  const std::string& name = names.front();
  if (name == "dft") return TextLoss::kWeightedByProbability;
  if (name == "nll" || name == "chunked_nll") return TextLoss::kCrossEntropy;
  const std::vector<std::string_view> owners = owners_of(name);
  throw input_error(r.where(kKey), "expected nll, chunked_nll or dft without rl, got {}; {}", quote(name),
                    owners.empty() ? "write one of them" : fmt::format("write rl: {}", fmt::join(owners, " or rl: ")));
}

double resolve_label_smoothing(const Resolution& r, TextLoss loss) {
  constexpr const char* kKey = "label_smoothing_factor";
  if (has_preferences(r.keys) || is_online(r.keys)) {
    if (r.keys.label_smoothing_factor > 0) r.ignore(kKey, "it smooths the loss of text, as in TRL");
    return 0;
  }
  if (loss == TextLoss::kCrossEntropy) return r.keys.label_smoothing_factor;
  if (r.keys.label_smoothing_factor > 0)
    r.ignore(kKey, loss == TextLoss::kWeightedByProbability ? "dft is computed without it, as in TRL"
                                                            : "eaft is computed without it, as in axolotl");
  return 0;
}

std::string_view name_of(PreferenceLoss loss) {
  const auto* const found = std::find_if(std::begin(kPreferenceLosses), std::end(kPreferenceLosses),
                                         [&](const PreferenceLossName& one) { return one.loss == loss; });
  return found == std::end(kPreferenceLosses) ? "" : found->name;
}

double resolve_beta(const Resolution& r, double usual) {
  if (!r.given("rl_beta")) return usual;
  const std::vector<double>& said = r.keys.rl_beta;
  if (said.size() != 1)
    throw input_error(r.where("rl_beta"),
                      "expected one number, got {}; only online_dpo has one for each epoch, leave the others out",
                      said.size());
  return said.front();
}

std::optional<PreferenceSettings> resolve_preference(const Resolution& r, ConfigUse use) {
  const Spelled& keys = r.keys;
  if (!has_preferences(keys)) {
    if (!is_online(keys)) check_objective(r);
    ignore_all(r, "it belongs to preference training, which rl, reward_model or process_reward_model asks for");
    return {};
  }
  r.exclude("rl", keys.rl != Rl::kNone, "reward_model", keys.reward_model);
  r.exclude("rl", keys.rl != Rl::kNone, "process_reward_model", keys.process_reward_model);
  r.exclude("reward_model", keys.reward_model, "process_reward_model", keys.process_reward_model);
  const double beta = resolve_beta(r, 0.1);
  if (beta == 0) throw input_error(r.where("rl_beta"), "expected a number above 0, got 0; raise it");
  const RlName& objective = objective_name(keys);
  for (const ConfigKey* key : objectives_keys()) {
    if ((key->readers & reader_of(keys)) == 0) r.ignore(key->name, fmt::format("it belongs to {}", key->owners));
  }
  PreferenceSettings settings{keys, objective.kind, std::string(objective.name), losses_of(r, objective), beta};
  settings.center_rewards_coefficient = keys.center_rewards_coefficient.value_or(0);
  r.exclude("rl_beta", true, "orpo_alpha", objective.kind == Kind::kOrpo);
  if (objective.kind == Kind::kOrpo && keys.orpo_alpha) settings.beta = *keys.orpo_alpha;
  if (objective.kind == Kind::kDpo || objective.kind == Kind::kKto) {
    settings.ref_model = keys.ref_model;
    settings.precompute_ref_log_probs = keys.precompute_ref_log_probs;
    settings.sync = resolve_reference_sync(r);
  }
  check_losses(r, settings);
  if (trains_score(objective.kind)) check_labels(r, objective);
  if (use == ConfigUse::kTrain && lends_completions(keys)) check_mismatched(r);
  return settings;
}

}  // namespace spillway::config
