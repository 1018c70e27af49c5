// A schedule of learning rates: a name, the options that it takes, and the rate of each step as a formula of the step
// alone, so that a resumed run needs no state for it. A schedule is an entry of schedules.cc; the config's keys, their
// checks and the trainer walk over these.
//
// Everything here is immutable, and any thread may use it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::schedules {

// The allowed form of an option's text.
enum class OptionForm { kNumber, kInteger, kFlag, kWord };

struct ScheduleOption {
  std::string_view name;          // a literal, transformers' and torch's name: "num_cycles"
  std::optional<double> value{};  // the default; none: leaving it out has a meaning of its own
  OptionForm form = OptionForm::kNumber;
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool is_required = false;
  std::span<const std::string_view> words{};  // of kWord; the value is the index of a word here
};

// The numbers of a schedule's options by name, given or by default.
class ScheduleOptions {
 public:
  // Sets or replaces a number. `name` is one of a ScheduleOption.
  void set(std::string_view name, double value);
  [[nodiscard]] std::optional<double> find(std::string_view name) const;
  // REQUIRES: it is set.
  [[nodiscard]] double number(std::string_view name) const;
  bool operator==(const ScheduleOptions&) const = default;

 private:
  std::vector<std::pair<std::string_view, double>> items_;
};

// Axolotl's jagged restarts: up to every multiple of `steps` the rate falls over `anneal_steps`, and behind it rises
// over `warmup_steps`, between the share `least` and all of what the schedule says. A restart needs no warmup before
// it: the first steps have the schedule's own.
struct JaggedRestarts {
  int64_t steps = 0, warmup_steps = 0, anneal_steps = 0;
  double least = 0;
  bool operator==(const JaggedRestarts&) const = default;
};

// The steps that a schedule covers.
struct ScheduleSpan {
  double peak = 0;  // the config's learning rate
  int64_t warmup_steps = 0, total_steps = 0;
  std::optional<JaggedRestarts> restarts{};
  // For optimizers that warm up by themselves, beside the schedule: step k has k / rise_steps of the schedule's rate.
  int64_t rise_steps = 0;
};

struct ScheduleDef {
  std::string_view name;  // the name that a config's words resolve to: "cosine"
  std::span<const ScheduleOption> options;
  bool has_warmup = true;
  int64_t ahead = 0;  // steps by which the library counts further than those that are done
  // Returns the required property of options or peak, for a message: "lr_end below learning_rate". Empty if they fit.
  // Null: they always do.
  std::string (*conflict)(const ScheduleOptions& options, double peak) = nullptr;
  // Returns the schedule's rate for the step with `done` steps before it; rate_of() applies the rest of the span.
  // REQUIRES: 0 <= done <= span.total_steps, options that fit.
  double (*rate)(const ScheduleSpan& span, const ScheduleOptions& options, int64_t done) = nullptr;
};

// Returns the optimizer's rate in the step with `done` steps before it. With restarts, rates are those of the step
// after it: axolotl's wrapper of a schedule counts one step further than the schedule. REQUIRES: done <
// span.total_steps, and as ScheduleDef::rate.
[[nodiscard]] double rate_of(const ScheduleDef& schedule, const ScheduleSpan& span, const ScheduleOptions& options,
                             int64_t done);

[[nodiscard]] std::span<const ScheduleDef> all_schedules();
// Returns null if there is no schedule of that name.
[[nodiscard]] const ScheduleDef* find_schedule(std::string_view name);
// Returns the options that have a default.
[[nodiscard]] ScheduleOptions defaults_of(const ScheduleDef& schedule);
// Returns the value as a config would write it: a word, true or false, a number.
[[nodiscard]] std::string print_option(const ScheduleOption& option, double value);

}  // namespace spillway::schedules
