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

// The values of the section, whichever way it is written.
std::vector<ForeignSetting> read_section(const Setting& section, Verdicts& verdicts) {
  const YamlNode& value = section.value;
  if (value.kind != YamlNode::Kind::kScalar) return collect_foreign(deepspeed_table(), value, section.place, verdicts);
  if (is_off(value)) return {};
  if (value.text.starts_with('{')) {
    const KeyPlace inside{section.place.text(), 1, ""};
    return collect_foreign(deepspeed_table(), parse_yaml(value.text, inside.file), inside, verdicts);
  }
  const std::string path = expand_home(value.text);
  if (std::error_code error; !std::filesystem::exists(path, error))
    throw input_error(
        section.place.text(),
        "expected DeepSpeed's config as a file, JSON text or a mapping, got {}; name a file that is there",
        value.shown());
  const YamlNode root = parse_yaml(read_file(path, kLargestFile), path);
  return collect_foreign(deepspeed_table(), root, KeyPlace{path, 0, ""}, verdicts);
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

// DeepSpeed's batch is a step on all ranks, of which there is one.
void merge_batch(std::span<const ForeignSetting> section, std::vector<Setting>& settings) {
  const ForeignSetting* batch = find_foreign(section, "train_batch_size");
  if (batch == nullptr) return;
  const Setting* accumulation = find_setting(settings, "gradient_accumulation_steps");
  if (accumulation == nullptr) {
    merge_setting(settings, {find_key("batch_size"), canonical(*batch), batch->place, batch->value});
    return;
  }
  const Setting* micro = find_setting(settings, "micro_batch_size");
  int64_t rows = 0, steps = 0, micro_rows = 1;
  read_value(batch->value, batch->place, {.least = 1}, rows);
  read_value(accumulation->value, accumulation->place, accumulation->key->range, steps);
  if (micro != nullptr) read_value(micro->value, micro->place, micro->key->range, micro_rows);
  if (rows != steps * micro_rows) {
    throw input_error(batch->place.text(),
                      "expected micro_batch_size x gradient_accumulation_steps, {} x {}, got {}; change one of them",
                      micro_rows, steps, rows);
  }
}

// The options of SGD are a mapping here.
void merge_optim_args(std::span<const ForeignSetting> section, std::vector<Setting>& settings) {
  Setting args{find_key("optim_args"), "", {}, {}};
  args.value.kind = YamlNode::Kind::kMap;
  for (const char* name : {"momentum", "nesterov", "dampening"}) {
    const ForeignSetting* option = find_foreign(section, fmt::format("optimizer.params.{}", name));
    if (option == nullptr) continue;
    args.value.entries.push_back({name, option->place.line, option->value});
    args.spelled = canonical(*option);
    args.place = option->place;
  }
  if (!args.value.entries.empty()) merge_setting(settings, std::move(args));
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
  const std::vector<ForeignSetting> section = read_section(*found, verdicts);
  check_stage(section);
  merge_foreign(deepspeed_table(), section, settings, verdicts);
  verdicts.ignore("deepspeed.zero_optimization.stage", "on one rank there is nothing to shard");
  merge_paths(section, settings);
  merge_batch(section, settings);
  merge_optim_args(section, settings);
  const auto is_optimizer = [](const ForeignSetting& one) { return one.key->text == "optimizer_offload"; };
  const auto optimizer = std::find_if(section.begin(), section.end(), is_optimizer);
  merge_ratio(section, settings, loaded);
  if (optimizer != section.end()) follow_optimizer(settings, optimizer->place);
}

}  // namespace spillway::config
