#include "config/programs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "config/keys.h"

namespace spillway::config {
namespace {

struct Default {
  std::string_view key, value;
  std::array<std::string_view, 3> beside{};  // other keys that set the same
};

// Where TRL 1.16's configs differ from axolotl.
constexpr Default kTrlDefaults[] = {
    {"micro_batch_size", "8", {"batch_size"}},
    {"num_epochs", "3"},
    {"lr_scheduler", "linear"},
    {"bf16", "true", {"float32", "fp16", "float16"}},
    {"logging_steps", "10"},
    {"save_strategy", "steps", {"save_steps", "saves_per_epoch"}},
    {"output_dir", "trainer_output"},
};

// The defaults of the command line of FastVideo's trainers; ema_decay, 0.999 there, is that of its newer configs.
constexpr Default kFastVideoDefaults[] = {
    {"lr_scheduler", "constant"},
    {"max_grad_norm", "0"},
};

// The defaults of axolotl's section `trl:`; TRL's own, 0.6 and 512, are those of the table of keys.
constexpr Default kTrlSectionDefaults[] = {
    {"ref_model_mixup_alpha", "0.9"},
    {"ref_model_sync_steps", "64"},
};

// SFTConfig's, RewardConfig's, PRMConfig's, PPOConfig's, OnlineDPOConfig's, and that of DPO, KTO, ORPO, CPO, GRPO and
// RLOO.
Default learning_rate_of(const Spelled& keys) {
  std::string_view rate = keys.rl == Rl::kNone ? "2e-5" : "1e-6";
  if (keys.reward_model) rate = "1e-4";
  if (keys.process_reward_model) rate = "1e-5";
  if (keys.rl == Rl::kPpo) rate = "3e-6";
  if (keys.rl == Rl::kOnlineDpo) rate = "5e-7";
  return {"learning_rate", rate};
}

// Online DPO's is prompt and completion together.
Default max_length_of(const Spelled& keys) {
  return {"max_length", keys.rl == Rl::kOnlineDpo ? "512" : "1024", {"sequence_len"}};
}

// Returns "key value" where the default was taken; empty where the config says something.
std::string take(LoadedConfig& loaded, const Default& one) {
  const auto is_given = [&](std::string_view key) { return !key.empty() && loaded.given.contains(key); };
  if (is_given(one.key) || std::any_of(one.beside.begin(), one.beside.end(), is_given)) return "";
  const ConfigKey* row = find_key(one.key);
  row->read(YamlNode::scalar(std::string(one.value)), {"", 0, std::string(one.key)}, &loaded.keys);
  return fmt::format("{} {}", one.key, one.value);
}

void take_all(LoadedConfig& loaded, std::span<const Default> defaults, std::vector<std::string>& taken) {
  for (const Default& one : defaults) {
    if (std::string text = take(loaded, one); !text.empty()) taken.push_back(std::move(text));
  }
}

bool has_trl_section(const LoadedConfig& loaded) {
  return std::any_of(loaded.spelled.begin(), loaded.spelled.end(),
                     [](const auto& key) { return key.second.starts_with("trl."); });
}

bool is_trl_config(const LoadedConfig& loaded) {
  if (loaded.given.contains("dataset_name")) return true;
  const auto model = loaded.spelled.find("base_model");
  const auto& datasets = loaded.keys.datasets;
  return model != loaded.spelled.end() && model->second == "model_name_or_path" && !datasets.empty() &&
         !loaded.given.contains("pretraining_dataset") &&
         std::none_of(datasets.begin(), datasets.end(),
                      [](const SpelledDataset& one) { return one.config.type.given; });
}

}  // namespace

Program program_of(const LoadedConfig& loaded) {
  if (loaded.given.contains("data_path")) return Program::kFastVideo;
  return is_trl_config(loaded) ? Program::kTrl : Program::kAxolotl;
}

void take_program_defaults(LoadedConfig& loaded) {
  std::vector<std::string> taken;
  switch (program_of(loaded)) {
    case Program::kAxolotl:
      if (has_trl_section(loaded)) take_all(loaded, kTrlSectionDefaults, taken);
      return;  // these are the defaults that the docs give
    case Program::kTrl: {
      const Default own[] = {learning_rate_of(loaded.keys), max_length_of(loaded.keys)};
      take_all(loaded, own, taken);
      loaded.given.emplace("learning_rate", "learning_rate");
      take_all(loaded, kTrlDefaults, taken);
      break;
    }
    case Program::kFastVideo:
      take_all(loaded, kFastVideoDefaults, taken);
      break;
  }
  if (taken.empty()) return;
  const std::string_view name = program_of(loaded) == Program::kTrl ? "TRL" : "FastVideo";
  loaded.notes.push_back(fmt::format("left out, so as {} has it: {}", name, fmt::join(taken, ", ")));
}

void take_peft_defaults(LoadedConfig& loaded) {
  Spelled& keys = loaded.keys;
  if (!keys.use_peft.value_or(false) || keys.adapter != Adapter::kNone || loaded.given.contains("adapter")) return;
  keys.adapter = Adapter::kLora;
  const std::string where = loaded.given.find("use_peft")->second;
  loaded.given.emplace("adapter", where);
  if (loaded.given.emplace("lora_r", where).second) keys.lora_r = 16;
  if (loaded.given.emplace("lora_alpha", where).second) keys.lora_alpha = 32;
  if (!loaded.given.contains("lora_dropout")) keys.lora_dropout = 0.05;
  if (!loaded.given.contains("bnb_config_kwargs.bnb_4bit_use_double_quant")) keys.bnb_use_double_quant = false;
}

}  // namespace spillway::config
