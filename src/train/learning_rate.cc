#include "train/learning_rate.h"

namespace spillway::train {
namespace {

// A config that was not loaded from a file may lack options that have a default.
schedules::ScheduleOptions schedule_options(const schedules::ScheduleDef& schedule,
                                            const schedules::ScheduleOptions& given) {
  schedules::ScheduleOptions options = schedules::defaults_of(schedule);
  for (const schedules::ScheduleOption& option : schedule.options) {
    if (const auto value = given.find(option.name)) options.set(option.name, *value);
  }
  return options;
}

}  // namespace

LearningRate::LearningRate(const config::ScheduleSettings& settings, int64_t total_steps)
    : schedule_(*schedules::find_schedule(settings.lr_scheduler.name)),
      options_(schedule_options(schedule_, settings.options)),
      span_{.peak = settings.learning_rate,
            .warmup_steps = settings.warmup.of(total_steps),
            .total_steps = total_steps,
            .restarts = settings.restarts,
            .rise_steps = settings.optimizer_warmup.of(total_steps)} {}

}  // namespace spillway::train
