#include "config/fsdp.h"

#include <algorithm>

#include "base/text.h"
#include "config/foreign_section.h"

namespace spillway::config {
namespace {

using enum ForeignKey::Use;

// Each also with `fsdp_` before it.
constexpr ForeignKey kFsdpKeys[] = {
    {"offload_params", kBecomes, "parameter_offload", kToHost},
    {"cpu_offload", kBecomes, "parameter_offload", kToHost},
    {"activation_checkpointing", kSpecial, "gradient_checkpointing"},
    {"version", kIgnored, ""},
    {"auto_wrap_policy", kIgnored, ""},
    {"backward_prefetch", kIgnored, ""},
    {"backward_prefetch_policy", kIgnored, ""},
    {"cpu_offload_pin_memory", kIgnored, ""},
    {"cpu_ram_efficient_loading", kIgnored, ""},
    {"final_state_dict_type", kIgnored, ""},
    {"forward_prefetch", kIgnored, ""},
    {"limit_all_gathers", kIgnored, ""},
    {"min_num_params", kIgnored, ""},
    {"mixed_precision_policy", kIgnored, ""},
    {"reshard_after_forward", kSpecial, "zero_stage"},
    {"sharding_strategy", kSpecial, "zero_stage"},
    {"state_dict_type", kIgnored, ""},
    {"sync_module_states", kIgnored, ""},
    {"transformer_layer_cls_to_wrap", kIgnored, ""},
    {"use_orig_params", kIgnored, ""},
    {"xla", kIgnored, ""},
    {"xla_fsdp_grad_ckpt", kIgnored, ""},
    {"xla_fsdp_settings", kIgnored, ""},
    {"xla_fsdp_v2", kIgnored, ""},
};
constexpr ForeignTable kFsdpTable{"FSDP", "fsdp_config", kFsdpKeys};

constexpr std::string_view kWords[] = {"full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2",
                                       "no_shard",   "auto_wrap",     "offload",      "true"};

// `[full_shard, offload]`, "full_shard offload", true.
std::vector<std::string> read_words(const Setting& setting) {
  if (boolean_of(setting.value) == false || setting.value.text == "none") return {};
  std::vector<std::string> lines, words;
  if (boolean_of(setting.value) == true) {
    lines = {"true"};
  } else {
    read_value(setting.value, setting.place, {}, lines);
  }
  for (const std::string& line : lines) {
    for (size_t begin = 0; (begin = line.find_first_not_of(" ,", begin)) != std::string::npos;) {
      const size_t end = std::min(line.find_first_of(" ,", begin), line.size());
      words.push_back(line.substr(begin, end - begin));
      begin = end;
    }
  }
  for (const std::string& word : words) {
    if (std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords)) continue;
    const std::string_view near = nearest_name(word, kWords);
    throw input_error(setting.place.text(), "expected {}, got {}; {}", joined_names(kWords), quote(word),
                      near.empty() ? "write some of these" : fmt::format("did you mean {}?", near));
  }
  return words;
}

YamlNode without_prefixes(YamlNode section) {
  for (auto& entry : section.entries) {
    if (entry.key.starts_with("fsdp_")) entry.key.erase(0, 5);
  }
  return section;
}

// FSDP's CPU offloading: the optimizer runs where the weights are.
void keep_on_host(std::vector<Setting>& settings, std::string_view spelled, const KeyPlace& place) {
  const auto merge_host = [&](const char* key) {
    merge_setting(settings, {find_key(key), std::string(spelled), place, YamlNode::scalar("host")});
  };
  merge_host("parameter_offload");
  if (find_setting(settings, "optimizer_offload") == nullptr) merge_host("optimizer_offload");
  follow_optimizer(settings, place);
}

// A strategy of FSDP's first version: its word in `fsdp`, accelerate's number for it, and the stage of ZeRO.
struct Sharding {
  std::string_view word, number;
  const char* stage;
};
constexpr Sharding kShardings[] = {{"full_shard", "1", "3"},
                                   {"shard_grad_op", "2", "2"},
                                   {"no_shard", "3", "0"},
                                   {"hybrid_shard", "4", "3"},
                                   {"hybrid_shard_zero2", "5", "2"}};

// Adds the verdict on a word of `fsdp`.
void add_verdict(const std::string& word, bool is_alone, Verdicts& verdicts) {
  const std::string key = "fsdp." + word;
  const bool is_sharding =
      std::any_of(std::begin(kShardings), std::end(kShardings), [&](const Sharding& one) { return one.word == word; });
  if (word == "offload") return verdicts.add(key, key, Verdict::kSupported, "is parameter_offload");
  if (!is_sharding) return verdicts.add(key, key, Verdict::kIgnored, "the plan places everything");
  if (is_alone) return verdicts.add(key, key, Verdict::kIgnored, kNothingToShard);
  verdicts.add(key, key, Verdict::kSupported,
               word.starts_with("hybrid") ? "is zero_stage and dp_shard_size, the ranks of a host" : "is zero_stage");
}

// Returns what FSDP splits, and over which ranks.
Sharding sharding_of(std::span<const std::string> words, std::span<const ForeignSetting> section) {
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  const ForeignSetting* said = find_foreign(section, "sharding_strategy");
  const ForeignSetting* reshards = find_foreign(section, "reshard_after_forward");
  if (said == nullptr) said = reshards;  // which the first version reads as the strategy's name
  Sharding sharding = kShardings[0];
  for (const Sharding& one : kShardings) {
    const bool is_said =
        said != nullptr && (said->value.text == one.number || lower_case(said->value.text) == one.word);
    if (has(one.word) || is_said) sharding = one;
  }
  const bool keeps_weights = reshards != nullptr && boolean_of(reshards->value) == false;
  if (keeps_weights && sharding.stage == std::string_view("3")) sharding.stage = "2";
  return sharding;
}

// FSDP's own checkpointing comes in place of the trainer's, which people therefore turn off beside it.
void merge_checkpointing(std::span<const ForeignSetting> section, std::vector<Setting>& settings) {
  const ForeignSetting* flag = find_foreign(section, "activation_checkpointing");
  bool is_on = false;
  if (flag != nullptr) read_value(flag->value, flag->place, {}, is_on);
  if (!is_on) return;
  const auto is_trainers = [](const Setting& one) { return one.key->name == "gradient_checkpointing"; };
  const auto trainers = std::find_if(settings.begin(), settings.end(), is_trainers);
  const bool from_file = trainers != settings.end() && trainers->place.line != 0;
  if (from_file && is_off(trainers->value)) settings.erase(trainers);
  if (find_setting(settings, "gradient_checkpointing") != nullptr) return;
  merge_setting(settings, {find_key("gradient_checkpointing"), "activation_checkpointing", flag->place,
                           YamlNode::scalar("true")});
}

}  // namespace

void merge_fsdp(std::vector<Setting>& settings, LoadedConfig& loaded, Verdicts& verdicts) {
  const Setting* words_setting = find_setting(settings, "fsdp");
  const Setting* section_setting = find_setting(settings, "fsdp_config");
  std::vector<std::string> words;
  std::vector<ForeignSetting> section;
  KeyPlace place;
  if (section_setting != nullptr && boolean_of(section_setting->value) != false) {
    place = section_setting->place;
    section = collect_foreign(kFsdpTable, without_prefixes(section_setting->value), place, verdicts);
  }
  if (words_setting != nullptr) {
    words = read_words(*words_setting);
    if (!words.empty()) place = words_setting->place;
  }
  if (words.empty() && section.empty()) return;
  const Setting* deepspeed = find_setting(settings, "deepspeed");
  if (deepspeed != nullptr && boolean_of(deepspeed->value) != false) {
    throw input_error(place.text(), "expected {} or deepspeed, got both ({}); remove one", place.path,
                      deepspeed->place.text());
  }
  const bool is_alone = ranks_of(settings, loaded) == 1;
  for (const std::string& word : words) add_verdict(word, is_alone, verdicts);
  merge_foreign(kFsdpTable, section, settings, verdicts);
  if (is_alone) {
    for (const char* key : {"reshard_after_forward", "sharding_strategy"})
      verdicts.ignore(fmt::format("fsdp_config.{}", key), kNothingToShard);
  }
  const Sharding sharding = sharding_of(words, section);
  merge_setting(settings, {find_key("zero_stage"), place.path, place, YamlNode::scalar(sharding.stage)});
  loaded.shards_by_host = sharding.word.starts_with("hybrid");
  merge_checkpointing(section, settings);
  const ForeignSetting* flag = find_foreign(section, "offload_params");
  if (flag == nullptr) flag = find_foreign(section, "cpu_offload");
  const bool offloads = std::find(words.begin(), words.end(), "offload") != words.end();
  if (!offloads && (flag == nullptr || boolean_of(flag->value) != true)) return;
  if (offloads) {
    keep_on_host(settings, "fsdp", place);
  } else {
    keep_on_host(settings, flag->key->name, flag->place);
  }
}

}  // namespace spillway::config
