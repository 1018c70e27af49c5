#include "schedules/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"

namespace spillway::schedules {

void ScheduleOptions::set(std::string_view name, double value) {
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == name; });
  if (found == items_.end()) {
    items_.emplace_back(name, value);
  } else {
    found->second = value;
  }
}

std::optional<double> ScheduleOptions::find(std::string_view name) const {
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == name; });
  return found == items_.end() ? std::nullopt : std::optional(found->second);
}

double ScheduleOptions::number(std::string_view name) const {
  const std::optional<double> found = find(name);
  SPILLWAY_CHECK(found, "a schedule reads the option {}, which it does not have", name);
  return *found;
}

namespace {

// Returns the share of the schedule's rate that `step` has, by axolotl's count of steps.
double jagged_share(const JaggedRestarts& restarts, int64_t step) {
  if (step < restarts.steps - restarts.anneal_steps) return 1;
  const int64_t behind = step % restarts.steps, left = restarts.steps - behind;
  double share = 1;
  if (behind < restarts.warmup_steps) {
    share = static_cast<double>(behind) / static_cast<double>(restarts.warmup_steps);
  } else if (left < restarts.anneal_steps) {
    share = static_cast<double>(left) / static_cast<double>(restarts.anneal_steps);
  }
  return share * (1 - restarts.least) + restarts.least;
}

double scheduled_rate(const ScheduleDef& schedule, const ScheduleSpan& span, const ScheduleOptions& options,
                      int64_t done) {
  if (!span.restarts) return schedule.rate(span, options, done);
  return schedule.rate(span, options, done + 1) * jagged_share(*span.restarts, done + 1 + schedule.ahead);
}

}  // namespace

double rate_of(const ScheduleDef& schedule, const ScheduleSpan& span, const ScheduleOptions& options, int64_t done) {
  const double rate = scheduled_rate(schedule, span, options, done);
  if (done >= span.rise_steps) return rate;
  return rate * (static_cast<double>(done + 1) / static_cast<double>(span.rise_steps));
}

const ScheduleDef* find_schedule(std::string_view name) {
  const std::span<const ScheduleDef> all = all_schedules();
  const auto found = std::find_if(all.begin(), all.end(), [&](const ScheduleDef& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

ScheduleOptions defaults_of(const ScheduleDef& schedule) {
  ScheduleOptions options;
  for (const ScheduleOption& option : schedule.options) {
    if (option.value) options.set(option.name, *option.value);
  }
  return options;
}

std::string print_option(const ScheduleOption& option, double value) {
  if (option.form == OptionForm::kWord) return std::string(nth(option.words, value));
  if (option.form == OptionForm::kFlag) return value == 0 ? "false" : "true";
  return fmt::format("{}", value);
}

}  // namespace spillway::schedules
