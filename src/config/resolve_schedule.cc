// The steps of a run: how many, and at which rate. Which options a schedule has, it says itself (schedules/schedule.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "config/programs.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

using schedules::OptionForm;
using schedules::ScheduleDef;
using schedules::ScheduleOption;

constexpr std::string_view kMinRate = "min_lr_rate";  // an option of several schedules

// The plain constant schedule of transformers knows no warmup.
bool has_warmup(const Resolution& r) { return schedules::find_schedule(r.keys.lr_scheduler.name)->has_warmup; }

// A share in warmup_steps is transformers' way of saying it, and rounded as there. So are axolotl's shares of rl: grpo,
// whose number of steps it does not know: it leaves them to transformers.
WarmupSteps warmup_of(const Resolution& r) {
  const Spelled& keys = r.keys;
  const double ratio = keys.warmup_ratio.value_or(0), steps = keys.warmup_steps.value_or(0);
  const bool is_axolotls = program_of(r.loaded) == Program::kAxolotl;
  r.exclude("warmup_steps", steps > 0, "warmup_ratio", ratio > 0);
  if (!has_warmup(r) && !keys.optimizer.warms_up) {
    for (const char* key : {"warmup_steps", "warmup_ratio"}) r.ignore(key, "the constant schedule has no warmup");
    return {};
  }
  r.check_whole("warmup_steps", keys.warmup_steps);
  if (steps > 0) return {.count = StepCount::from_key(steps), .is_axolotls = is_axolotls && steps >= 1};
  const bool counts_steps = is_axolotls && keys.rl != Rl::kGrpo;
  WarmupSteps warmup{.count = {.value = ratio, .is_share = true}, .is_axolotls = counts_steps};
  if (is_axolotls && !keys.warmup_steps && !keys.warmup_ratio) {
    warmup.count.value = 0.03;
    if (counts_steps) warmup.max_steps = 100;
  }
  return warmup;
}

// An option of a schedule that a key of its own says.
struct SaidOption {
  std::string_view option, key;
  double value = 0;
};

// Keys of axolotl and FastVideo say options of a schedule, or make it another one.
struct Chosen {
  std::string_view name;
  std::vector<SaidOption> said{};
  std::string_view instead{};  // of lr_scheduler_kwargs: the key that leaves them no meaning; empty: they have one
};

void ignore_where(const Resolution& r, std::string_view key, bool is_set, std::string_view why) {
  if (is_set && r.given(key)) r.ignore(key, why);
}

Chosen choose_cosine(const Resolution& r) {
  const Spelled& keys = r.keys;
  const bool has_least = keys.cosine_min_lr_ratio.value_or(0) > 0;
  const bool has_constant = keys.cosine_constant_lr_ratio.value_or(0) > 0;
  if (keys.lr_quadratic_warmup) {
    ignore_where(r, "cosine_min_lr_ratio", has_least, "lr_quadratic_warmup wins over it");
    ignore_where(r, "cosine_constant_lr_ratio", has_constant, "lr_quadratic_warmup wins over it");
    return {.name = "cosine_quadratic_warmup", .instead = "lr_quadratic_warmup"};
  }
  ignore_where(r, "cosine_constant_lr_ratio", has_constant && !has_least, "it counts beside cosine_min_lr_ratio alone");
  if (!has_least) return {.name = "cosine"};
  const SaidOption least{kMinRate, "cosine_min_lr_ratio", keys.cosine_min_lr_ratio.value_or(0)};
  if (!has_constant) return {.name = "cosine_with_min_lr", .said = {least}, .instead = least.key};
  const SaidOption constant{"constant_ratio", "cosine_constant_lr_ratio", keys.cosine_constant_lr_ratio.value_or(0)};
  return {.name = "cosine_then_constant", .said = {least, constant}, .instead = least.key};
}

// FastVideo's schedules are transformers', but for its cosine_with_min_lr.
Chosen choose_fastvideos(const Resolution& r) {
  const Spelled& keys = r.keys;
  const std::string_view name = r.keys.lr_scheduler.name;
  const bool has_args = !r.keys.lr_scheduler_kwargs.items.empty();
  const bool is_fastvideos = program_of(r.loaded) == Program::kFastVideo && !has_args;
  Chosen chosen{.name = name};
  const auto take = [&](std::string_view key, std::optional<double> value, std::string_view reader,
                        std::string_view option) {
    if (name == reader && value) {
      chosen.said.push_back({option, key, *value});
    } else {
      ignore_where(r, key, value.has_value(), fmt::format("lr_scheduler {} alone reads it", reader));
    }
  };
  take("lr_num_cycles", keys.lr_num_cycles, "cosine_with_restarts", "num_cycles");
  take("lr_power", keys.lr_power, "polynomial", "power");
  take("min_lr_ratio", keys.min_lr_ratio, "cosine_with_min_lr", kMinRate);
  if (name != "cosine_with_min_lr" || (!keys.min_lr_ratio && !is_fastvideos)) return chosen;
  if (!keys.min_lr_ratio) {
    chosen.said.push_back({kMinRate, "min_lr_ratio", 0.5});
    r.note("left out, so as FastVideo has it: min_lr_ratio 0.5");
  }
  chosen.name = "cosine_with_floor";
  chosen.instead = "min_lr_ratio";
  return chosen;
}

Chosen choose(const Resolution& r) {
  const Spelled& keys = r.keys;
  Chosen fastvideos = choose_fastvideos(r);
  if (keys.lr_scheduler.name == "cosine") return choose_cosine(r);
  constexpr std::string_view kCosineAlone = "the cosine schedule alone reads it";
  ignore_where(r, "lr_quadratic_warmup", keys.lr_quadratic_warmup, kCosineAlone);
  ignore_where(r, "cosine_constant_lr_ratio", keys.cosine_constant_lr_ratio.has_value(), kCosineAlone);
  const std::optional<double>& least = keys.cosine_min_lr_ratio;
  if (keys.lr_scheduler.name == "rex" && least)
    return {.name = "rex", .said = {{kMinRate, "cosine_min_lr_ratio", *least}}};
  ignore_where(r, "cosine_min_lr_ratio", least.has_value(), "cosine and rex alone read it");
  return fastvideos;
}

std::string expected_of(const ScheduleOption& option) {
  if (option.form == OptionForm::kWord) return joined_names(option.words);
  if (option.form == OptionForm::kFlag) return "true or false";
  const Range range{.least = option.least, .most = option.most};
  return (option.form == OptionForm::kInteger ? "an integer" : "a number") + range.text();
}

double value_of(const ScheduleOption& option, const SchedulerArg& arg) {
  const auto fail = [&]() {
    throw input_error(arg.where, "expected {}, got {}; change the value", expected_of(option), quote(arg.text));
  };
  if (option.form == OptionForm::kWord) {
    const auto word = std::find(option.words.begin(), option.words.end(), arg.text);
    if (word == option.words.end()) fail();
    return static_cast<double>(word - option.words.begin());
  }
  const YamlNode node = YamlNode::scalar(arg.text);
  if (option.form == OptionForm::kFlag) {
    const std::optional<bool> flag = boolean_of(node);
    if (!flag) fail();
    return flag.value_or(false) ? 1 : 0;
  }
  const std::optional<double> number = number_of(node);
  const bool is_whole = number && *number == std::floor(*number);
  const bool fits = number && *number >= option.least && *number <= option.most;
  if (!fits || (option.form == OptionForm::kInteger && !is_whole)) fail();
  return number.value_or(0);
}

const ScheduleOption& option_of(const ScheduleDef& schedule, const SchedulerArg& arg) {
  std::vector<std::string_view> names;
  for (const ScheduleOption& option : schedule.options) {
    if (option.name == arg.name) return option;
    names.push_back(option.name);
  }
  if (names.empty())
    throw input_error(arg.where, "expected no options beside lr_scheduler {}, got {}; remove it", schedule.name,
                      quote(arg.name));
  const std::string_view near = nearest_name(arg.name, names);
  throw input_error(arg.where, "expected an option of lr_scheduler {} ({}), got {}; {}", schedule.name,
                    joined_names(names), quote(arg.name),
                    near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
}

schedules::ScheduleOptions options_of(const Resolution& r, const ScheduleDef& schedule, const Chosen& chosen) {
  const SchedulerArgs& args = r.keys.lr_scheduler_kwargs;
  schedules::ScheduleOptions options = schedules::defaults_of(schedule);
  if (!chosen.instead.empty() && !args.items.empty())
    throw input_error(args.items.front().where,
                      "expected no options beside {}, got {}; remove it, or remove {} and write lr_scheduler: "
                      "cosine_with_min_lr",
                      chosen.instead, quote(args.items.front().name), chosen.instead);
  for (const SchedulerArg& arg : args.items) {
    const ScheduleOption& option = option_of(schedule, arg);
    const auto said = std::find_if(chosen.said.begin(), chosen.said.end(),
                                   [&](const SaidOption& one) { return one.option == option.name; });
    if (said != chosen.said.end())
      throw input_error(arg.where, "expected {} or {}, which are the same, got both; remove one", said->key, arg.name);
    const double value = value_of(option, arg);
    if (option.name == "cycle_momentum" && value != 0)
      throw NotYetError(
          fmt::format("[{}] expected false, got true; a momentum that changes is not yet supported", arg.where));
    options.set(option.name, value);
  }
  for (const SaidOption& one : chosen.said) options.set(one.option, one.value);
  for (const ScheduleOption& option : schedule.options) {
    if (option.is_required && !options.find(option.name))
      throw input_error(r.where("lr_scheduler_kwargs"),
                        "expected {} beside lr_scheduler {}, got none; write "
                        "lr_scheduler_kwargs: {{{}: ...}}",
                        option.name, schedule.name, option.name);
  }
  const std::string conflict = schedule.conflict ? schedule.conflict(options, r.keys.learning_rate) : "";
  if (!conflict.empty() && r.given("learning_rate"))
    throw input_error(r.where("lr_scheduler_kwargs"),
                      "expected {} beside lr_scheduler {}, got another; change the options", conflict, schedule.name);
  return options;
}

// Axolotl's jagged restarts, with its defaults.
std::optional<schedules::JaggedRestarts> restarts_of(const Resolution& r, const ScheduleDef& schedule) {
  const Spelled& keys = r.keys;
  constexpr const char* kSteps = "jagged_restart_steps";
  if (keys.jagged_restart_steps.count == 0) {
    for (const char* key : {"jagged_restart_warmup_steps", "jagged_restart_anneal_steps"})
      r.ignore(key, fmt::format("{} is off", kSteps));
    return {};
  }
  if (schedule.name == "one_cycle")
    throw input_error(r.where(kSteps),
                      "expected no restarts beside lr_scheduler one_cycle, whose one cycle is the whole run, got {}; "
                      "remove it, or write lr_scheduler: cosine",
                      keys.jagged_restart_steps.count);
  const auto or_else = [](StepsOrFalse steps, int64_t other) { return steps.count > 0 ? steps.count : other; };
  const double least = keys.cosine_min_lr_ratio.value_or(0);
  return schedules::JaggedRestarts{.steps = keys.jagged_restart_steps.count,
                                   .warmup_steps = or_else(keys.jagged_restart_warmup_steps, 10),
                                   .anneal_steps = or_else(keys.jagged_restart_anneal_steps, 1),
                                   .least = least > 0 ? least : 0.001};
}

}  // namespace

ScheduleSettings resolve_schedule(const Resolution& r) {
  const Spelled& keys = r.keys;
  const Chosen chosen = choose(r);
  const ScheduleDef& schedule = *schedules::find_schedule(chosen.name);
  ScheduleSettings settings{.num_epochs = keys.num_epochs,
                            .learning_rate = keys.learning_rate,
                            .lr_scheduler = {schedule.name},
                            .options = options_of(r, schedule, chosen),
                            .restarts = restarts_of(r, schedule)};
  const WarmupSteps warmup = warmup_of(r);
  if (has_warmup(r)) settings.warmup = warmup;
  if (keys.optimizer.warms_up) {
    settings.optimizer_warmup = warmup;
    if (schedule.name != "constant")
      r.note(fmt::format(
          "lr_scheduler {}: {} needs no schedule, and this one lowers its rate all the same, as in transformers; "
          "lr_scheduler: constant leaves it alone",
          schedule.name, keys.optimizer.name));
  }
  if (keys.max_steps.value_or(0) > 0) settings.max_steps = keys.max_steps;
  const auto& args = keys.lr_scheduler_kwargs.items;
  const bool says_momentum =
      std::any_of(args.begin(), args.end(), [](const auto& a) { return a.name == "cycle_momentum"; });
  if (schedule.name == "one_cycle" && !says_momentum)
    r.note(
        "lr_scheduler one_cycle: the momentum stays as it is, where torch turns it against the learning rate by "
        "default; lr_scheduler_kwargs: {cycle_momentum: false} is the same there");
  return settings;
}

}  // namespace spillway::config
