#include "config/deepspeed.h"

#include <algorithm>
#include <filesystem>

#include "base/bytes.h"
#include "base/home.h"
#include "config/deepspeed_keys.h"
#include "io/file.h"

namespace spillway::config {
namespace {

constexpr int64_t kLargestFile = kMiB;

// Throws InputError for a schedule without numbers that DeepSpeed sets to 0.001 and 1000, whatever the trainer's are.
void check_schedule(const YamlNode& root, const KeyPlace& place) {
  const YamlNode* scheduler = root.kind == YamlNode::Kind::kMap ? root.find("scheduler") : nullptr;
  if (scheduler == nullptr || scheduler->kind != YamlNode::Kind::kMap) return;
  const YamlNode* const params = scheduler->find("params");
  const YamlNode* const type = scheduler->find("type");
  const auto want = [&](const char* name, const char* deepspeeds) {
    if (params != nullptr && params->kind == YamlNode::Kind::kMap && params->find(name) != nullptr) return;
    throw input_error(place.path.empty() ? place.file : place.text(),
                      "expected scheduler.params.{} beside {}, got none, for which DeepSpeed takes {}; write a number, "
                      "or auto for the config's own",
                      name, type->text, deepspeeds);
  };
  if (type == nullptr) return;
  const bool scales_rates = type->text == "WarmupCosineLR",
             sets_rates = type->text == "WarmupLR" || type->text == "WarmupDecayLR";
  if (scales_rates || sets_rates) want("warmup_num_steps", "1000");
  if (sets_rates) want("warmup_max_lr", "0.001");
}

struct Section {
  std::vector<ForeignSetting> settings;
  bool clips = false;  // whether it has gradient_clipping, auto included
};

Section collect_checked(const YamlNode& root, const KeyPlace& place, Verdicts& verdicts) {
  Section section{.settings = collect_foreign(deepspeed_table(), root, place, verdicts)};
  check_schedule(root, place);
  section.clips = root.kind == YamlNode::Kind::kMap && root.find("gradient_clipping") != nullptr;
  return section;
}

// The values of the section, whichever way it is written.
Section read_section(const Setting& section, Verdicts& verdicts) {
  const YamlNode& value = section.value;
  if (value.kind != YamlNode::Kind::kScalar) return collect_checked(value, section.place, verdicts);
  if (is_off(value)) return {};
  if (value.text.starts_with('{')) {
    const KeyPlace inside{section.place.text(), 1, ""};
    return collect_checked(parse_yaml(value.text, inside.file), inside, verdicts);
  }
  const std::string path = expand_home(value.text);
  if (std::error_code error; !std::filesystem::exists(path, error))
    throw input_error(
        section.place.text(),
        "expected DeepSpeed's config as a file, JSON text or a mapping, got {}; name a file that is there",
        value.shown());
  const YamlNode root = parse_yaml(read_file(path, kLargestFile), path);
  return collect_checked(root, KeyPlace{path, 0, ""}, verdicts);
}

std::string canonical(const ForeignSetting& one) { return std::string(one.key->name); }

void check_stage(std::span<const ForeignSetting> section) {
  const ForeignSetting* stage = find_foreign(section, "zero_optimization.stage");
  int64_t value = 0;
  if (stage != nullptr) read_value(stage->value, stage->place, {.least = 0, .most = 3}, value);
  if (value > 0) return;
  for (const char* name : {"zero_optimization.offload_param.device", "zero_optimization.offload_optimizer.device"}) {
    const ForeignSetting* device = find_foreign(section, name);
    if (device == nullptr || device->value.text == "none") continue;
    throw input_error(device->place.text(),
                      "expected zero_optimization.stage 1, 2 or 3 beside it, got {}; DeepSpeed moves nothing at stage "
                      "0: set the stage, or remove the section",
                      stage == nullptr ? "none" : "0");
  }
}

// Both paths together are the disk tier.
void merge_paths(std::span<const ForeignSetting> section, std::vector<Setting>& settings) {
  Setting paths{find_key("memory.disk_paths"), "", {}, {}};
  paths.value.kind = YamlNode::Kind::kList;
  for (const char* part : {"offload_param", "offload_optimizer"}) {
    const std::string prefix = fmt::format("zero_optimization.{}.", part);
    const ForeignSetting* device = find_foreign(section, prefix + "device");
    const ForeignSetting* path = find_foreign(section, prefix + "nvme_path");
    if (path == nullptr || device == nullptr || device->value.text != "nvme") continue;
    const auto& known = paths.value.items;
    if (std::find(known.begin(), known.end(), path->value) != known.end()) continue;
    std::string text;
    read_value(path->value, path->place, {}, text);
    paths.value.items.push_back(YamlNode::scalar(text));
    paths.spelled = canonical(*path);
    paths.place = path->place;
  }
  if (!paths.value.items.empty()) merge_setting(settings, std::move(paths));
}

// DeepSpeed rounds gradients to this type before they are added up, on one rank, too. Here they are f32.
void check_gradient_type(std::span<const ForeignSetting> section) {
  const ForeignSetting* type = find_foreign(section, "communication_data_type");
  if (type == nullptr || type->value.is_null() || type->value.text == "fp32") return;
  throw NotYetError(
      fmt::format("[{}] expected fp32, got {}; gradients that are rounded before they are added up are not yet "
                  "supported: remove it",
                  type->place.text(), type->value.shown()));
}

// DeepSpeed's batch is a step on all ranks, or groups of those that share sequences. It gives the one of
// micro_batch_size and gradient_accumulation_steps that is missing.
void merge_batch(std::span<const ForeignSetting> section, int64_t ranks, std::vector<Setting>& settings) {
  const ForeignSetting* batch = find_foreign(section, "train_batch_size");
  if (batch == nullptr) return;
  int64_t rows = 0, steps = 1, micro_rows = 1;
  const auto read = [](const Setting* one, int64_t& value) {
    if (one != nullptr) read_value(one->value, one->place, one->key->range, value);
  };
  const Setting *accumulation = find_setting(settings, "gradient_accumulation_steps"),
                *micro = find_setting(settings, "micro_batch_size");
  read_value(batch->value, batch->place, {.least = 1}, rows);
  read(accumulation, steps);
  read(micro, micro_rows);
  const int64_t known = micro_rows * steps * ranks;
  if (accumulation != nullptr && micro != nullptr && rows != known) {
    throw input_error(
        batch->place.text(),
        "expected micro_batch_size x gradient_accumulation_steps{}, {} x {}{}, got {}; change one of them",
        ranks == 1 ? "" : " x ranks", micro_rows, steps, ranks == 1 ? "" : fmt::format(" x {}", ranks), rows);
  }
  if (rows % known != 0) {
    throw input_error(batch->place.text(), "expected a multiple of {}{}, got {}; change one of them",
                      accumulation != nullptr ? fmt::format("gradient_accumulation_steps, {}", steps)
                                              : fmt::format("micro_batch_size, {}", micro_rows),
                      ranks == 1 ? "" : fmt::format(", times {} ranks", ranks), rows);
  }
  const auto merge = [&](const char* key, int64_t value) {
    merge_setting(settings,
                  {find_key(key), canonical(*batch), batch->place, YamlNode::scalar(fmt::format("{}", value))});
  };
  if (accumulation == nullptr) {
    merge("batch_size", rows / ranks);
  } else if (micro == nullptr) {
    merge("micro_batch_size", rows / known);
  }
}

// Merges parameters of a part of the section that are a mapping here: options of SGD, and of a schedule.
void merge_mapping(std::span<const ForeignSetting> section, std::string_view part, const char* key,
                   std::initializer_list<const char*> names, std::vector<Setting>& settings) {
  Setting args{find_key(key), "", {}, {}};
  args.value.kind = YamlNode::Kind::kMap;
  for (const char* name : names) {
    const ForeignSetting* option = find_foreign(section, fmt::format("{}.params.{}", part, name));
    if (option == nullptr) continue;
    args.value.entries.push_back({name, option->place.line, option->value});
    args.spelled = canonical(*option);
    args.place = option->place;
  }
  if (!args.value.entries.empty()) merge_setting(settings, std::move(args));
}

// The Trainer hands all parameters in one group to the optimizer that DeepSpeed makes. It leaves clipping to DeepSpeed,
// whose default is 1 from version 0.19 on, and none before.
void note_defaults(const Section& section, std::span<const Setting> settings, LoadedConfig& loaded) {
  const auto is_of_optimizer = [](const ForeignSetting& one) { return one.key->name.starts_with("optimizer."); };
  loaded.keys.is_deepspeed_optimizer = std::any_of(section.settings.begin(), section.settings.end(), is_of_optimizer);
  const Setting* norm = find_setting(settings, "max_grad_norm");
  if (norm == nullptr || section.clips || number_of(norm->value) == 1) return;
  loaded.notes.push_back(
      fmt::format("{}: {} holds; DeepSpeed would clip at its own default, as its section has no gradient_clipping",
                  norm->spelled, norm->value.text));
}

// A ratio below 1 leaves part of the optimizer on the device: which part, the plan knows best.
void merge_ratio(std::span<const ForeignSetting> section, std::vector<Setting>& settings, LoadedConfig& loaded) {
  const ForeignSetting* ratio = find_foreign(section, "zero_optimization.offload_optimizer.ratio");
  const ForeignSetting* device = find_foreign(section, "zero_optimization.offload_optimizer.device");
  if (ratio == nullptr) return;
  double share = 1;
  read_value(ratio->value, ratio->place, {.least = 0, .most = 1}, share);
  const auto homes = std::find_if(settings.begin(), settings.end(),
                                  [](const Setting& one) { return one.key->name == "optimizer_offload"; });
  const bool is_ours = homes != settings.end() && device != nullptr && homes->place.text() == device->place.text();
  if (share == 1 || !is_ours || device->value.text == "none") return;
  homes->value = YamlNode::scalar("auto");
  (device->value.text == "cpu" ? loaded.keys.uses_host : loaded.keys.uses_disk) = true;
  loaded.notes.push_back(
      fmt::format("{}: {}: how much of the optimizer leaves the device is the plan's choice (optimizer_offload: auto)",
                  canonical(*ratio), share));
}

}  // namespace

void merge_deepspeed(std::vector<Setting>& settings, LoadedConfig& loaded, Verdicts& verdicts) {
  const Setting* found = find_setting(settings, "deepspeed");
  if (found == nullptr) return;
  const Section read = read_section(*found, verdicts);
  const std::vector<ForeignSetting>& section = read.settings;
  check_stage(section);
  merge_foreign(deepspeed_table(), section, settings, verdicts);
  merge_paths(section, settings);
  constexpr const char* kType = "deepspeed.communication_data_type";
  verdicts.attempt(kType, kType, [&] { check_gradient_type(section); });
  const int64_t ranks = ranks_of(settings, loaded);
  if (ranks == 1) {
    for (const char* key : {"zero_optimization.stage", "zero_optimization.mics_shard_size", "sequence_parallel_size",
                            "tensor_parallel.autotp_size"})
      verdicts.ignore(fmt::format("deepspeed.{}", key), kNothingToShard);
  } else {
    // Numbers of ranks, of which 0 or less is DeepSpeed's word for off.
    for (const char* name : {"zero_optimization.mics_shard_size", "tensor_parallel.autotp_size"}) {
      const ForeignSetting* size = find_foreign(section, name);
      if (size == nullptr || number_of(size->value) <= 0) continue;
      merge_setting(settings, {find_key(size->key->text), canonical(*size), size->place, size->value});
    }
  }
  merge_batch(section, groups_of_ranks(settings, loaded), settings);
  merge_mapping(section, "optimizer", "optim_args", {"momentum", "nesterov", "dampening"}, settings);
  merge_mapping(section, "scheduler", "lr_scheduler_kwargs",
                {"warmup_min_ratio", "cos_min_ratio", "warmup_type", "total_num_steps"}, settings);
  const auto is_optimizer = [](const ForeignSetting& one) { return one.key->text == "optimizer_offload"; };
  const auto optimizer = std::find_if(section.begin(), section.end(), is_optimizer);
  merge_ratio(section, settings, loaded);
  note_defaults(read, settings, loaded);
  if (optimizer != section.end()) follow_optimizer(settings, optimizer->place);
}

}  // namespace spillway::config
