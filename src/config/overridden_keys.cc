#include "config/overridden_keys.h"

#include <algorithm>
#include <string_view>

namespace spillway::config {
namespace {

struct Alternatives {
  std::vector<std::string_view> keys;
  bool wins_off = false;  // a value that is off contradicts the others, too
};

// The keys of which a config gives one.
const std::vector<Alternatives>& all_alternatives() {
  static const std::vector<Alternatives> kAll = {
      {{"eval_steps", "evals_per_epoch"}},
      {{"save_steps", "saves_per_epoch"}},
      {{"warmup_steps", "warmup_ratio"}, true},
      {{"gradient_accumulation_steps", "batch_size"}},
      {{"special_tokens.eos_token", "eos_token"}},
      {{"special_tokens.pad_token", "pad_token"}},
      {{"bf16", "dtype", "fp16", "float16", "float32", "mixed_precision"}, true},
      {{"sample_packing", "packing"}},
      {{"curriculum_sampling", "group_by_length", "train_sampling_strategy"}},
      {{"datasets", "dataset_name", "data_path"}},
      {{"chat_template", "chat_template_jinja"}},
      {{"val_set_size", "test_datasets", "dataset_test_split"}},
      {{"adapter", "use_peft", "lora_training"}, true},
      {{"rl", "reward_model", "process_reward_model"}},
      {{"rl_beta", "orpo_alpha"}},
      {{"generation_batch_size", "steps_per_generation"}},
      {{"report_to", "use_tensorboard"}, true},
      {{"report_to", "use_wandb"}, true},
      {{"report_to", "use_mlflow"}, true},
      {{"report_to", "use_trackio"}, true},
      {{"memory.device", "gpu_memory_limit", "max_memory"}},
      {{"memory.host", "max_memory"}},
      {{"memory.disk", "max_memory"}},
      {{"deepspeed", "fsdp_config"}},
      {{"deepspeed", "fsdp"}},
      {{"adam_beta1", "betas"}},
      {{"adam_beta2", "betas"}},
      {{"train_on_inputs", "completion_only_loss"}, true},
  };
  return kAll;
}

struct Strategy {
  std::string_view key, steps, per_epoch;
};
constexpr Strategy kStrategyKeys[] = {{"eval_strategy", "eval_steps", "evals_per_epoch"},
                                      {"save_strategy", "save_steps", "saves_per_epoch"}};

bool is_of_file(const Setting& setting) { return setting.place.line != 0; }

bool is_steps(const YamlNode& value) { return value.kind == YamlNode::Kind::kScalar && value.text == "steps"; }

// Removes the file's setting of a key, where it has one that `is_it`.
template <typename Is>
void drop(std::vector<Setting>& settings, std::string_view key, const Is& is_it) {
  std::erase_if(settings, [&](const Setting& one) { return one.key->name == key && is_of_file(one) && is_it(one); });
}
void drop(std::vector<Setting>& settings, std::string_view key) {
  drop(settings, key, [](const Setting&) { return true; });
}

// Drops, of accelerate's budgets, the one of the tier that the command line names.
void drop_budget(std::vector<Setting>& settings, std::string_view tier) {
  for (Setting& setting : settings) {
    if (setting.key->name != "max_memory" || !is_of_file(setting)) continue;
    std::erase_if(setting.value.entries, [&](const auto& entry) {
      if (tier == "memory.host") return entry.key == "cpu";
      return tier == "memory.disk" ? entry.key == "disk" : entry.key != "cpu" && entry.key != "disk";
    });
    if (tier == "memory.device") setting.value.items.clear();
  }
}

// Takes the tracker that the command line's `use_NAME` speaks of out of the file's report_to.
void drop_tracker(std::vector<Setting>& settings, std::string_view use) {
  constexpr std::string_view kUse = "use_";
  const auto is_answered = [&](const YamlNode& name) {
    return name.text == use.substr(kUse.size()) || name.text == "none";
  };
  for (Setting& setting : settings) {
    if (setting.key->name == "report_to" && is_of_file(setting)) std::erase_if(setting.value.items, is_answered);
  }
  drop(settings, "report_to", [&](const Setting& one) {
    return one.value.kind == YamlNode::Kind::kScalar ? is_answered(one.value) : one.value.items.empty();
  });
}

void drop_others(std::vector<Setting>& settings, const Setting& said) {
  for (const Alternatives& alternatives : all_alternatives()) {
    const auto& keys = alternatives.keys;
    if (std::find(keys.begin(), keys.end(), said.key->name) == keys.end()) continue;
    if (is_off(said.value) && !alternatives.wins_off) continue;
    for (const std::string_view key : keys) {
      if (key == said.key->name) continue;
      if (key == "max_memory") {
        drop_budget(settings, said.key->name);
      } else if (key == "report_to") {
        drop_tracker(settings, said.key->name);
      } else {
        drop(settings, key);
      }
    }
  }
}

// Drops keys of intervals that contradict the command line: a strategy other than `steps` has no number.
void drop_of_strategies(std::vector<Setting>& settings, const Setting& said) {
  for (const Strategy& one : kStrategyKeys) {
    if (said.key->name == one.key && !is_steps(said.value)) {
      drop(settings, one.steps);
      drop(settings, one.per_epoch);
    } else if ((said.key->name == one.steps || said.key->name == one.per_epoch) && !is_off(said.value)) {
      drop(settings, one.key, [](const Setting& setting) { return !is_steps(setting.value); });
    }
  }
}

// The rows' length has two names with rules of their own: the file's name stays, with the command line's number.
void keep_length_rules(std::vector<Setting>& settings, const Setting& said) {
  constexpr std::string_view kLengths[] = {"sequence_len", "max_length"};
  for (const std::string_view key : kLengths) {
    const std::string_view other = key == kLengths[0] ? kLengths[1] : kLengths[0];
    if (said.key->name != key) continue;
    const auto files = std::find_if(settings.begin(), settings.end(), [&](const Setting& one) {
      return one.key->name == other && is_of_file(one) && !one.value.is_null();
    });
    if (files == settings.end()) return;
    files->value = said.value;
    files->place = said.place;
    std::erase_if(settings, [&](const Setting& one) { return one.key->name == key; });
    return;
  }
}

}  // namespace

void drop_overridden(std::vector<Setting>& settings, std::span<const Setting> said) {
  for (const Setting& one : said) {
    if (one.value.is_null()) continue;
    drop_others(settings, one);
    drop_of_strategies(settings, one);
    keep_length_rules(settings, one);
  }
}

}  // namespace spillway::config
