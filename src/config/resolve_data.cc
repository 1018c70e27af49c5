// Data: which files, how they are read, how long their rows may be.
#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/text.h"
#include "config/programs.h"
#include "config/resolve.h"
#include "config/template_name.h"
#include "data/rows/dataset_type.h"

namespace spillway::config {
namespace {

void add_older_mappings(const SpelledDataset& said, const std::string& where, DatasetConfig& dataset) {
  for (const auto& [name, older] :
       {std::pair{"role", &said.message_field_role}, {"content", &said.message_field_content}}) {
    if (older->empty()) continue;
    const auto [mapping, is_new] = dataset.message_property_mappings.emplace(name, *older);
    if (!is_new && mapping->second != *older) {
      throw input_error(fmt::format("{}.message_field_{}", where, name),
                        "expected the name in message_property_mappings.{}, {}, got {}; remove one", name,
                        quote(mapping->second), quote(*older));
    }
  }
}

// Throws InputError for options that choose rows of tables, which clips are not.
void check_no_table(const DatasetConfig& dataset, const std::string& where) {
  if (dataset.type.name != data::kVideoLatents) return;
  for (const auto& [key, is_set] : {std::pair{"data_dir", !dataset.data_dir.empty()},
                                    {"columns", !dataset.columns.empty()},
                                    {"fraction", dataset.fraction.has_value()}}) {
    if (is_set)
      throw input_error(fmt::format("{}.{}", where, key),
                        "expected none for a folder of clips, got one; remove it, and write path or weight");
  }
}

// Clips have no objective but their own, which is better said than that the type belongs to no other.
void check_no_objective_of_video(const Resolution& r, const DatasetConfig& dataset) {
  if (dataset.type.name != data::kVideoLatents) return;
  for (const char* key : {"rl", "reward_model", "process_reward_model"}) {
    if (r.given(key) && objective_of(r.keys) != data::Objective::kText)
      throw input_error(r.where(key), "expected no {} for a model of video, got one; remove it", key);
  }
}

// Gives a verdict on each option of the entry that rows of its type do not read: wrong, or ignored where they do anyway
// what it says. `key` is the entry's path.
void check_options(const Resolution& r, std::string_view key, const std::string& where, const DatasetConfig& dataset) {
  Verdicts verdicts;
  const std::string rows = data::rows_named(dataset.type), below = fmt::format("{}.", key);
  for (const data::UnreadOption& option : data::unread_options(dataset, objective_of(r.keys))) {
    const std::string& name = option.key;
    for (const KeyVerdict& given : r.loaded.verdicts.keys()) {
      const bool is_property = name.starts_with("type.") && given.name == "type";
      if ((given.name != name && !is_property) || !given.key.starts_with(below)) continue;
      const std::string place = is_property ? below + name : given.key;
      if (option.is_harmless) {
        if (!is_property)
          verdicts.add(place, name, Verdict::kIgnored, fmt::format("{} do not read it, and are as it says", rows));
        continue;
      }
      verdicts.attempt(place, name, [&] {
        throw input_error(where + place.substr(key.size()),
                          "expected an option that {} read, got {}, which would change nothing; {}remove it", rows,
                          name, option.advice.empty() ? "" : option.advice + ", or ");
      });
    }
  }
  r.loaded.verdicts.append(std::move(verdicts));
}

DatasetConfig resolve_dataset(const Resolution& r, std::string_view key, const std::string& where,
                              const SpelledDataset& said) {
  DatasetConfig dataset = said.config;
  if (dataset.path.empty()) throw input_error(where + ".path", "expected a file or a folder, got nothing; set it");
  add_older_mappings(said, where, dataset);
  const data::Objective objective = objective_of(r.keys);
  check_no_objective_of_video(r, dataset);
  check_no_table(dataset, where);
  // An objective that is still to come has types of its own.
  if (objective != data::Objective::kText ||
      !(r.given("rl") || r.given("reward_model") || r.given("process_reward_model"))) {
    Verdicts types;
    const std::string type_key = fmt::format("{}.type", key);
    const bool is_known =
        types.attempt(type_key, type_key, [&] { data::check_dataset_type(dataset, objective, where + ".type"); });
    r.loaded.verdicts.append(std::move(types));
    if (is_known) check_options(r, key, where, dataset);
  }
  dataset.chat_template = resolve_template(r, fmt::format("{}.chat_template", key), where + ".chat_template",
                                           dataset.chat_template, dataset.chat_template_jinja);
  if (dataset.shards_idx >= dataset.shards) {
    throw input_error(where + ".shards_idx", "expected a part from 0 to {}, got {}; lower it or raise shards",
                      dataset.shards - 1, dataset.shards_idx);
  }
  return dataset;
}

// TRL's rules of `fraction`.
void check_fractions(const Resolution& r, const std::string& where, const std::vector<DatasetConfig>& datasets) {
  const auto has_fraction = [](const DatasetConfig& one) { return one.fraction.has_value(); };
  const auto given = std::count_if(datasets.begin(), datasets.end(), has_fraction);
  if (given == 0) return;
  const std::string place = where + ".fraction";
  if (given < std::ssize(datasets))
    throw input_error(place,
                      "expected a fraction of every dataset or of none, got {} for {} datasets; write the others",
                      given, datasets.size());
  if (r.keys.streaming || !r.keys.pretraining_dataset.empty())
    throw input_error(place, "expected rows that are all read first, got a stream beside it; remove one");
  if (std::all_of(datasets.begin(), datasets.end(), [](const DatasetConfig& one) { return *one.fraction == 0; }))
    throw input_error(place, "expected a fraction above 0, got none; raise one");
}

// `where` is where the list stands.
std::vector<DatasetConfig> resolve_datasets(const Resolution& r, std::string_view key, const std::string& where,
                                            const std::vector<SpelledDataset>& said) {
  std::vector<DatasetConfig> datasets;
  for (size_t i = 0; i < said.size(); ++i) {
    datasets.push_back(resolve_dataset(r, fmt::format("{}.{}", key, i), fmt::format("{}.{}", where, i), said[i]));
  }
  check_fractions(r, where, datasets);
  return datasets;
}

// A stream has no end, and nobody sees all of its rows.
void check_streaming(const Resolution& r) {
  const Spelled& keys = r.keys;
  const bool pretrains = !keys.pretraining_dataset.empty();
  const char* const streams = pretrains ? "pretraining_dataset" : "streaming";
  const char* const no_stream = pretrains ? "name the data in datasets" : "remove streaming";
  if (keys.max_steps.value_or(0) <= 0)
    throw input_error(r.where(streams),
                      "expected max_steps beside it, got none; a stream has no end of its own: set max_steps");
  const bool sorts = keys.group_by_length || keys.train_sampling_strategy == SamplingStrategy::kGroupByLength;
  const bool prefers = keys.rl != Rl::kNone || keys.reward_model;
  for (const auto& [is_set, key, advice] :
       {std::tuple{keys.val_set_size > 0, "val_set_size", "evaluate on test_datasets"},
        {keys.test_split_size.has_value(), "test_split_size", "evaluate on test_datasets"},
        {keys.rows.deduplicate, "dataset_exact_deduplication", "remove it"},
        {sorts, keys.group_by_length ? "group_by_length" : "train_sampling_strategy", "remove it"},
        {keys.process_reward_model, "process_reward_model", no_stream},
        {prefers, keys.reward_model ? "reward_model" : "rl", no_stream}}) {
    if (is_set)
      throw input_error(r.where(key), "expected rows that are all read first, got {} beside it; {}", streams, advice);
  }
  if (keys.test_datasets.empty()) r.ignore("dataset_prepared_path", "a stream is not kept");
}

// `datasets`, or TRL's one.
std::vector<SpelledDataset> named_datasets(const Resolution& r) {
  const Spelled& keys = r.keys;
  r.exclude("datasets", true, "dataset_name", true);
  if (keys.dataset_name.empty()) {
    for (const char* key : {"dataset_train_split", "dataset_test_split"})
      r.ignore(key, "it goes with dataset_name; entries of datasets have a split");
    r.ignore("dataset_config", "it goes with dataset_name; entries of datasets have a name");
    return keys.datasets;
  }
  SpelledDataset dataset;
  dataset.config.path = keys.dataset_name;
  if (!keys.dataset_train_split.empty()) dataset.config.split = keys.dataset_train_split;
  dataset.config.name = keys.dataset_config;
  r.loaded.given.emplace("datasets", r.where("dataset_name"));
  return {dataset};
}

// `test_datasets`, or another split of TRL's one, which is evaluated where eval_strategy asks for it. A file has but
// one, so nothing is meant that nobody has named.
std::vector<SpelledDataset> evaluated_datasets(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (keys.dataset_name.empty()) return keys.test_datasets;
  const bool is_named = !keys.dataset_test_split.empty();
  r.exclude("dataset_test_split", is_named, "test_datasets", !keys.test_datasets.empty());
  r.exclude("dataset_test_split", is_named, "val_set_size", keys.val_set_size > 0);
  if (!keys.test_datasets.empty() || keys.val_set_size > 0) return keys.test_datasets;
  if (keys.eval_strategy.value_or(IntervalStrategy::kNo) == IntervalStrategy::kNo) {
    r.ignore("dataset_test_split", "without an eval_strategy nothing is evaluated");
    return {};
  }
  std::error_code ignored;
  if (!is_named && std::filesystem::is_regular_file(keys.dataset_name, ignored)) return {};
  SpelledDataset dataset;
  dataset.config.path = keys.dataset_name;
  dataset.config.name = keys.dataset_config;
  dataset.config.split = is_named ? keys.dataset_test_split : "test";
  return {dataset};
}

// Returns the datasets to train on, whichever key names them.
std::vector<SpelledDataset> training_datasets(const Resolution& r) {
  std::vector<SpelledDataset> named = named_datasets(r);
  std::vector<SpelledDataset> pretraining = r.keys.pretraining_dataset;
  if (pretraining.empty()) return named;
  if (!named.empty()) {
    constexpr const char* kReplaced = "pretraining_dataset takes the place of datasets";
    r.note(kReplaced);
    r.loaded.verdicts.ignore_below("datasets", kReplaced);
    r.ignore("dataset_name", kReplaced);
  }
  for (SpelledDataset& dataset : pretraining) {
    if (!dataset.config.type.given) dataset.config.type = {.given = true, .name = "pretrain"};
  }
  r.loaded.given["datasets"] = r.where("pretraining_dataset");
  return pretraining;
}

// val_set_size, or TRL's word for it, which its mixtures of `datasets` alone have.
double resolve_validation(const Resolution& r) {
  const Spelled& keys = r.keys;
  if (!keys.test_split_size) return keys.val_set_size;
  constexpr const char* kKey = "test_split_size";
  if (!keys.dataset_name.empty()) {
    r.ignore(kKey, "it goes with datasets, as in TRL: dataset_test_split names the rows of dataset_name");
    return keys.val_set_size;
  }
  r.check_whole(kKey, keys.test_split_size);
  if (r.given("val_set_size") && keys.val_set_size != *keys.test_split_size)
    throw input_error(r.where(kKey), "expected the share of val_set_size, {}, got {}; remove one", keys.val_set_size,
                      *keys.test_split_size);
  r.exclude("test_datasets", !keys.test_datasets.empty(), kKey, true);
  return *keys.test_split_size;
}

// axolotl splits rows off the end of the merged datasets, which it shuffles before unless a key keeps their order.
bool validates_last_rows(const Resolution& r, size_t datasets) {
  const Spelled& keys = r.keys;
  if (keys.test_split_size) return false;
  return !keys.shuffle_merged_datasets.value_or(true) || (keys.curriculum_sampling && datasets == 1);
}

// Rows of test_datasets alone have a length of their own, as in axolotl, and of text alone.
int64_t resolve_eval_length(const Resolution& r, const data::DataSettings& data) {
  const std::optional<int64_t>& length = r.keys.eval_sequence_len;
  if (!length || *length == data.rows.sequence_len) return 0;
  constexpr const char* kKey = "eval_sequence_len";
  if (has_preferences(r.keys) || is_online(r.keys)) {
    r.ignore(kKey, "rows to evaluate preferences and completions on have the length of the others, as in axolotl");
    return 0;
  }
  if (data.test_datasets.empty()) {
    r.ignore(kKey, "there are no test_datasets: val_set_size takes rows of the length of the others, as in axolotl");
    return 0;
  }
  if (data.rows.length_rules == LengthRules::kAxolotl && *length < r.keys.rows.min_sample_len)
    throw input_error(r.where(kKey), "expected at least min_sample_len, {}, got {}; raise it",
                      r.keys.rows.min_sample_len, *length);
  return *length;
}

data::PretrainText pretrain_text(const Spelled& keys) {
  if (keys.pretraining_dataset.empty() || keys.sample_packing || keys.packing) return data::PretrainText::kWindows;
  return keys.pretraining_sample_concatenation ? data::PretrainText::kJoined : data::PretrainText::kStarts;
}

}  // namespace

data::Objective objective_of(const Spelled& keys) {
  if (keys.reward_model) return data::Objective::kReward;
  if (keys.process_reward_model) return data::Objective::kSteps;
  switch (keys.rl) {
    case Rl::kNone:
      return data::Objective::kText;
    case Rl::kOrpo:
    case Rl::kCpo:
    case Rl::kSimpo:  // TRL's trainers of both keep older rules
      return data::Objective::kOrpo;
    case Rl::kKto:
      return data::Objective::kUnpaired;
    case Rl::kGrpo:
    case Rl::kGdpo:
    case Rl::kRloo:
    case Rl::kOnlineDpo:
    case Rl::kPpo:
      return data::Objective::kPrompts;
    default:
      return data::Objective::kPairs;
  }
}

data::DataSettings resolve_data(const Resolution& r) {
  const Spelled& keys = r.keys;
  const std::vector<SpelledDataset> training = training_datasets(r);
  const bool pretrains = !keys.pretraining_dataset.empty();
  const bool streams = keys.streaming || pretrains;
  if (streams) check_streaming(r);
  if (training.empty()) {
    throw input_error(r.where("datasets"),
                      "expected at least one dataset, got none; write `- path: FILE` below `datasets:`");
  }
  const char* const key = pretrains ? "pretraining_dataset" : "datasets";
  data::DataSettings data{.datasets = resolve_datasets(r, key, r.where(key), training)};
  data.test_datasets = resolve_datasets(r, "test_datasets", r.where("test_datasets"), evaluated_datasets(r));
  for (DatasetConfig& dataset : data.datasets)
    if (dataset.split.empty()) dataset.split = "train";
  data.rows = resolve_rows(r, data);
  data.val_set_size = resolve_validation(r);
  const bool repeats =
      std::any_of(data.datasets.begin(), data.datasets.end(), [](const DatasetConfig& one) { return one.weight > 1; });
  if (data.val_set_size > 0 && repeats)
    r.note(
        "warning: weight repeats rows before val_set_size takes some of them, so that copies of a row may be on both "
        "sides; write test_datasets");
  if (!validates_last_rows(r, data.datasets.size())) data.validation_seed = static_cast<uint64_t>(keys.seed);
  data.eval_sequence_len = resolve_eval_length(r, data);
  if (streams) {
    data.stream = {.buffer_records = keys.streaming_multipack_buffer_size,
                   .shuffles = shuffles_stream(r, data.rows.length_rules),
                   .pretrain_text = pretrain_text(keys)};
  } else {
    r.ignore("streaming_multipack_buffer_size", "no rows are streamed");
  }
  if (is_online(keys)) {
    r.ignore("skip_prepare_dataset", "the rows of online training are prompts, made as the run goes on");
  } else if (keys.skip_prepare_dataset) {
    r.not_yet("skip_prepare_dataset", "no value or false, got true; rows in another form are");
  }
  data.prepared_path = keys.dataset_prepared_path;
  data.threads = keys.dataset_processes;
  return data;
}

}  // namespace spillway::config
