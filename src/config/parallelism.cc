#include "config/parallelism.h"

#include <fmt/format.h>

#include "config/foreign_section.h"

namespace spillway::config {
namespace {

using enum ForeignKey::Use;

// Each also with `parallelism_config_` before it, as accelerate's own files have them.
constexpr ForeignKey kParallelismKeys[] = {
    {"dp_replicate_size", kBecomes, "dp_replicate_size"},
    {"dp_shard_size", kBecomes, "dp_shard_size"},
    {"tp_size", kBecomes, "tensor_parallel_size"},
    {"cp_size", kSpecial, "context_parallel_size"},
    {"sp_size", kSpecial, "context_parallel_size"},
    {"cp_backend", kIgnored, ""},
    {"cp_comm_strategy", kIgnored, ""},
    {"cp_handler", kIgnored, ""},
    {"sp_backend", kIgnored, ""},
    {"sp_handler", kIgnored, ""},
    {"sp_seq_length", kIgnored, ""},
    {"sp_seq_length_is_variable", kIgnored, ""},
    {"sp_attn_implementation", kIgnored, ""},
    {"tp_handler", kIgnored, ""},
};
constexpr ForeignTable kParallelismTable{"accelerate's parallelism_config", "parallelism_config", kParallelismKeys};

YamlNode with_short_names(YamlNode section) {
  constexpr std::string_view kPrefix = "parallelism_config_";
  for (auto& entry : section.entries)
    if (entry.key.starts_with(kPrefix)) entry.key.erase(0, kPrefix.size());
  return section;
}

}  // namespace

void merge_parallelism(std::vector<Setting>& settings, const LoadedConfig& loaded, Verdicts& verdicts) {
  const Setting* found = find_setting(settings, "parallelism_config");
  if (found == nullptr || found->value.is_null()) return;
  const std::vector<ForeignSetting> section =
      collect_foreign(kParallelismTable, with_short_names(found->value), found->place, verdicts);
  merge_foreign(kParallelismTable, section, settings, verdicts);
  // Two ways to share a sequence, of which accelerate allows one at a time: 1 is off.
  for (const char* name : {"cp_size", "sp_size"}) {
    const ForeignSetting* size = find_foreign(section, name);
    if (size == nullptr || size->value.text == "1") continue;
    merge_setting(settings, {find_key("context_parallel_size"), name, size->place, size->value});
  }
  if (ranks_of(settings, loaded) > 1) return;
  for (const char* name : {"cp_size", "sp_size", "tp_size"})
    verdicts.ignore(fmt::format("parallelism_config.{}", name), kNothingToShard);
}

}  // namespace spillway::config
