#include "job/settings.h"

#include "config/values.h"

namespace spillway::train {

std::string print_numbers(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(config::print_value(number));
  return texts.size() == 1 ? texts.front() : config::print_value(texts);
}

void add_numbers(RunSettings& settings, std::initializer_list<std::pair<const char*, double>> numbers) {
  for (const auto& [key, value] : numbers) settings[key] = config::print_value(value);
}

void add_sync(RunSettings& settings, const std::optional<config::ReferenceSync>& sync) {
  settings["sync_ref_model"] = config::print_value(sync.has_value());
  if (!sync) return;
  settings["ref_model_sync_steps"] = config::print_value(sync->sync_steps);
  settings["ref_model_mixup_alpha"] = config::print_value(sync->mixup_alpha);
}

}  // namespace spillway::train
