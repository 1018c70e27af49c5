// The names of schedules, and their options: which there are is the schedule's to say.
#include "config/values.h"

namespace spillway::config {
namespace {

// Names of transformers, axolotl and DeepSpeed. Those that a schedule changes by other keys are in resolve_schedule.cc.
constexpr Word<LrScheduler> kSchedulers[] = {{"constant", LrScheduler{"constant"}},
                                             {"constant_with_warmup", LrScheduler{"constant_with_warmup"}},
                                             {"linear", LrScheduler{"linear"}},
                                             {"cosine", LrScheduler{"cosine"}},
                                             {"cosine_with_restarts", LrScheduler{"cosine_with_restarts"}},
                                             {"cosine_with_min_lr", LrScheduler{"cosine_with_min_lr"}},
                                             {"cosine_warmup_with_min_lr", LrScheduler{"cosine_warmup_with_min_lr"}},
                                             {"polynomial", LrScheduler{"polynomial"}},
                                             {"inverse_sqrt", LrScheduler{"inverse_sqrt"}},
                                             {"warmup_stable_decay", LrScheduler{"warmup_stable_decay"}},
                                             {"rex", LrScheduler{"rex"}},
                                             {"one_cycle", LrScheduler{"one_cycle"}},
                                             {"WarmupLR", LrScheduler{"WarmupLR"}},
                                             {"WarmupDecayLR", LrScheduler{"WarmupDecayLR"}},
                                             {"WarmupCosineLR", LrScheduler{"WarmupCosineLR"}},
                                             {"greedy", {}, "schedules by loss are"},
                                             {"reduce_lr_on_plateau", {}, "schedules by evaluation loss are"},
                                             {"log_sweep", {}, "the sweep is"}};

}  // namespace

std::span<const Word<LrScheduler>> words_of(LrScheduler) { return kSchedulers; }

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, SchedulerArgs& value) {
  value.items.clear();
  if (node.kind == YamlNode::Kind::kScalar && node.text.find_first_not_of(' ') == std::string::npos) return;
  if (node.kind == YamlNode::Kind::kScalar && node.text.starts_with('{'))
    return read_value(parse_yaml(node.text, place.text()), place, range, value);
  if (node.kind != YamlNode::Kind::kMap)
    throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key",
                      node.shown());
  for (const YamlNode::Entry& entry : node.entries) {
    if (entry.value.is_null()) continue;
    const KeyPlace here = place.at(entry);
    if (entry.value.kind != YamlNode::Kind::kScalar)
      throw input_error(here.text(), "expected a number or a word, got {}; write one value", entry.value.shown());
    value.items.push_back({entry.key, entry.value.text, here.text()});
  }
}

}  // namespace spillway::config
