// The schedules. Those of transformers are its get_scheduler(), one_cycle is torch's OneCycleLR, rex and the cosines of
// cosine_min_lr_ratio, cosine_constant_lr_ratio and lr_quadratic_warmup are axolotl's, cosine_with_floor is FastVideo's
// cosine_with_min_lr, and WarmupLR, WarmupDecayLR and WarmupCosineLR are DeepSpeed's. schedules_test.cc compares each
// with the library's values, so the formulas keep the libraries' order of operations.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "schedules/schedule.h"

namespace spillway::schedules {
namespace {

using Options = ScheduleOptions;
using Span = ScheduleSpan;

double as_real(int64_t steps) { return static_cast<double>(steps); }
double at_least_one(int64_t steps) { return std::max(1.0, as_real(steps)); }
double half_wave(double cycles, double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress));
}

bool is_warming_up(const Span& span, int64_t done) { return done < span.warmup_steps; }
// Returns the rate of a warmup that starts from 0 in the first step.
double warmup(const Span& span, int64_t done) { return span.peak * (as_real(done) / at_least_one(span.warmup_steps)); }
// Returns the share of the steps after the warmup that have been done.
double progress(const Span& span, int64_t done) {
  return as_real(done - span.warmup_steps) / at_least_one(span.total_steps - span.warmup_steps);
}

constexpr std::string_view kCycles = "num_cycles", kMinLr = "min_lr", kMinRate = "min_lr_rate",
                           kMinRatio = "min_lr_ratio", kWarmupRate = "warmup_lr_rate",
                           kConstantRatio = "constant_ratio", kWarmupMinRatio = "warmup_min_ratio",
                           kCosineMinRatio = "cos_min_ratio";
constexpr ScheduleOption kHalfCycles{kCycles, 0.5};
constexpr ScheduleOption kLeastRate{.name = kMinRate, .least = 0, .most = 1};

// --- constant, linear ---

double constant(const Span& span, const Options&, int64_t) { return span.peak; }
double constant_with_warmup(const Span& span, const Options&, int64_t done) {
  return is_warming_up(span, done) ? warmup(span, done) : span.peak;
}
double linear(const Span& span, const Options&, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  return span.peak *
         std::max(0.0, as_real(span.total_steps - done) / at_least_one(span.total_steps - span.warmup_steps));
}

// --- cosines ---

double cosine(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  return span.peak * std::max(0.0, half_wave(options.number(kCycles), progress(span, done)));
}
constexpr std::array kCosineOptions = {kHalfCycles};

double cosine_with_restarts(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  const double at = progress(span, done);
  if (at >= 1) return 0;
  const double in_cycle = std::fmod(options.number(kCycles) * at, 1.0);
  return span.peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * in_cycle)));
}
constexpr std::array kRestartOptions = {ScheduleOption{.name = kCycles, .value = 1, .least = 0}};

std::string one_minimum(const Options& options, double) {
  const bool rate = options.find(kMinRate).has_value(), lr = options.find(kMinLr).has_value();
  return rate == lr ? "one of min_lr and min_lr_rate" : "";
}
// Returns the least rate as a share of the peak, which may be 0: then every rate is.
double least_rate(const Span& span, const Options& options) {
  if (const auto rate = options.find(kMinRate)) return *rate;
  return span.peak == 0 ? 0 : options.number(kMinLr) / span.peak;
}
double with_least(double factor, double least) { return factor * (1 - least) + least; }

double cosine_with_min_lr(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  const double wave = half_wave(options.number(kCycles), progress(span, done));
  return span.peak * std::max(0.0, with_least(wave, least_rate(span, options)));
}
constexpr std::array kMinLrOptions = {kHalfCycles, ScheduleOption{.name = kMinLr, .least = 0}, kLeastRate};

// The warmup and the wave of this schedule are a step ahead of the others'.
double cosine_warmup_with_min_lr(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) {
    const auto first = options.find(kWarmupRate);
    if (!first) return span.peak * (as_real(done + 1) / at_least_one(span.warmup_steps));
    return span.peak * (*first + (1 - *first) * as_real(done) / at_least_one(span.warmup_steps - 1));
  }
  const double ahead = as_real(done - span.warmup_steps + 1) / at_least_one(span.total_steps - span.warmup_steps);
  const double wave = half_wave(options.number(kCycles), ahead);
  return span.peak * std::max(0.0, with_least(wave, least_rate(span, options)));
}
constexpr std::array kWarmupMinLrOptions = {kHalfCycles, ScheduleOption{.name = kMinLr, .least = 0}, kLeastRate,
                                            ScheduleOption{.name = kWarmupRate, .least = 0, .most = 1}};

// Falls to the least rate at a share of all steps, and stays there.
double cosine_then_constant(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  const auto falling = static_cast<int64_t>(as_real(span.total_steps) * options.number(kConstantRatio));
  const int64_t step = std::min(done, falling);
  const double at = as_real(step - span.warmup_steps) / at_least_one(falling - span.warmup_steps);
  const double least = options.number(kMinRate);
  return span.peak * (std::max(0.0, (1 - least) * half_wave(0.5, at)) + least);
}
constexpr std::array kThenConstantOptions = {
    ScheduleOption{.name = kMinRate, .least = 0, .most = 1, .is_required = true},
    ScheduleOption{.name = kConstantRatio, .least = 0, .most = 1, .is_required = true}};

// Cuts off the wave of cosine below, while cosine_with_min_lr makes a flatter one.
double cosine_with_floor(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  return span.peak * std::max(options.number(kMinRate), half_wave(0.5, progress(span, done)));
}
constexpr std::array kFloorOptions = {ScheduleOption{.name = kMinRate, .least = 0, .most = 1, .is_required = true}};

double cosine_quadratic_warmup(const Span& span, const Options&, int64_t done) {
  if (is_warming_up(span, done)) return span.peak * std::pow(as_real(done) / at_least_one(span.warmup_steps), 2.0);
  return span.peak * std::max(0.0, half_wave(0.5, progress(span, done)));
}

// --- polynomial, inverse_sqrt ---

double polynomial(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  const double end = options.number("lr_end");
  const double left = 1 - progress(span, done);
  return (span.peak - end) * std::pow(left, options.number("power")) + end;
}
std::string ends_below_peak(const Options& options, double peak) {
  return options.number("lr_end") < peak ? "" : "lr_end below learning_rate";
}
constexpr std::array kPolynomialOptions = {ScheduleOption{.name = "lr_end", .value = 1e-7, .least = 0},
                                           ScheduleOption{.name = "power", .value = 1, .least = 0}};

double inverse_sqrt(const Span& span, const Options& options, int64_t done) {
  if (is_warming_up(span, done)) return warmup(span, done);
  constexpr double kWithoutWarmup = 10000;
  const double by_default = span.warmup_steps > 0 ? as_real(span.warmup_steps) : kWithoutWarmup;
  const double timescale = options.find("timescale").value_or(by_default);
  const double shift = timescale - as_real(span.warmup_steps);
  return span.peak * (1 / std::sqrt((as_real(done) + shift) / timescale));
}
constexpr std::array kInverseSqrtOptions = {
    ScheduleOption{.name = "timescale", .form = OptionForm::kInteger, .least = 1}};

// --- warmup_stable_decay ---

constexpr std::array<std::string_view, 3> kShapes = {"linear", "cosine", "1-sqrt"};
enum Shape { kLinearShape, kCosineShape, kSqrtShape };

double stable_warmup(Shape shape, double at) {
  if (shape == kLinearShape) return at;
  return shape == kCosineShape ? 0.5 * (1 - std::cos(std::numbers::pi * at)) : 1 - std::sqrt(1 - at);
}
double stable_decay(Shape shape, double cycles, double at) {
  if (shape == kLinearShape) return 1 - at;
  return shape == kCosineShape ? half_wave(cycles, at) : 1 - std::sqrt(at);
}

double warmup_stable_decay(const Span& span, const Options& options, int64_t done) {
  const double least = options.number(kMinRatio);
  const auto shape_of = [&](std::string_view name) { return static_cast<Shape>(options.number(name)); };
  if (is_warming_up(span, done)) {
    const double at = as_real(done) / at_least_one(span.warmup_steps);
    return span.peak * std::max(0.0, with_least(stable_warmup(shape_of("warmup_type"), at), least));
  }
  const auto decay = static_cast<int64_t>(options.number("num_decay_steps"));
  const auto stable = options.find("num_stable_steps");
  const int64_t stable_end = stable ? span.warmup_steps + static_cast<int64_t>(*stable) : span.total_steps - decay;
  if (done < stable_end) return span.peak;
  if (done >= stable_end + decay) return span.peak * least;
  const double at = as_real(done - stable_end) / at_least_one(decay);
  const double factor = stable_decay(shape_of("decay_type"), options.number(kCycles), at);
  return span.peak * std::max(0.0, with_least(factor, least));
}
constexpr std::array kStableOptions = {
    ScheduleOption{.name = "num_decay_steps", .form = OptionForm::kInteger, .least = 0, .is_required = true},
    ScheduleOption{.name = "num_stable_steps", .form = OptionForm::kInteger, .least = 0},
    ScheduleOption{.name = "warmup_type", .value = kLinearShape, .form = OptionForm::kWord, .words = kShapes},
    ScheduleOption{.name = "decay_type", .value = kCosineShape, .form = OptionForm::kWord, .words = kShapes},
    ScheduleOption{.name = kMinRatio, .value = 0, .least = 0, .most = 1},
    kHalfCycles};

// --- rex ---

// Axolotl's RexLR is a step ahead: its first step is not at a rate of 0.
double rex(const Span& span, const Options& options, int64_t done) {
  const int64_t step = done + 1;
  if (step <= span.warmup_steps) return span.peak * as_real(step) / as_real(span.warmup_steps);
  const double after = as_real(step - span.warmup_steps), all = as_real(span.total_steps - span.warmup_steps);
  const double least = options.number(kMinRate);
  if (after >= all) return span.peak * least;
  const double z = (all - after) / all;
  return span.peak * (least + (1 - least) * (z / (0.1 + 0.9 * z)));
}
constexpr std::array kRexOptions = {ScheduleOption{.name = kMinRate, .value = 0, .least = 0, .most = 1}};

// --- one_cycle ---

constexpr std::array<std::string_view, 2> kAnneals = {"cos", "linear"};

double anneal(double how, double start, double end, double at) {
  if (how == 1) return (end - start) * at + start;
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * at));
}

// Goes up, down, and with three phases in between back to where it began. The share of the first phase is that of the
// warmup, unless pct_start is set.
double one_cycle(const Span& span, const Options& options, int64_t done) {
  const double all = as_real(span.total_steps);
  const double rise = options.find("pct_start").value_or(std::min(1.0, as_real(span.warmup_steps) / all));
  const double first = span.peak / options.number("div_factor"), last = first / options.number("final_div_factor");
  const bool three = options.number("three_phase") != 0;
  struct Phase {
    double end, from, to;
  };
  const std::array<Phase, 3> phases = {
      Phase{rise * all - 1, first, span.peak},
      three ? Phase{2 * rise * all - 2, span.peak, first} : Phase{all - 1, span.peak, last},
      Phase{all - 1, first, last}};
  double start = 0;
  for (size_t i = 0; i < 3; ++i) {
    const Phase& phase = phases[i];
    if (as_real(done) <= phase.end || i == (three ? 2U : 1U)) {
      const double steps = phase.end - start;
      const double at = steps == 0 ? 1 : (as_real(done) - start) / steps;
      return anneal(options.number("anneal_strategy"), phase.from, phase.to, at);
    }
    start = phase.end;
  }
  return last;
}
constexpr std::array kOneCycleOptions = {
    ScheduleOption{.name = "pct_start", .least = 0, .most = 1},
    ScheduleOption{.name = "anneal_strategy", .value = 0, .form = OptionForm::kWord, .words = kAnneals},
    ScheduleOption{.name = "div_factor", .value = 25, .least = 1e-6},
    ScheduleOption{.name = "final_div_factor", .value = 1e4, .least = 1e-6},
    ScheduleOption{.name = "three_phase", .value = 0, .form = OptionForm::kFlag},
    // Only a constant momentum is supported; torch's default would turn it against the rate.
    ScheduleOption{.name = "cycle_momentum", .value = 0, .form = OptionForm::kFlag, .least = 0, .most = 0}};

// --- DeepSpeed's ---

constexpr std::array<std::string_view, 2> kWarmups = {"log", "linear"};
constexpr ScheduleOption kWarmupType{.name = "warmup_type", .value = 0, .form = OptionForm::kWord, .words = kWarmups};
constexpr ScheduleOption kTotalSteps{.name = "total_num_steps", .form = OptionForm::kInteger, .least = 1};

// DeepSpeed counts the step that has been done, so that the first two steps have the rate from which a warmup starts.
// A warmup has at least two steps.
struct DeepspeedSteps {
  int64_t step = 0, warmup = 0;
  double total = 0;

  DeepspeedSteps(const Span& span, const Options& options, int64_t done)
      : step(done - 1),
        warmup(std::max<int64_t>(2, span.warmup_steps)),
        total(options.find(kTotalSteps.name).value_or(as_real(span.total_steps))) {}
  [[nodiscard]] bool is_warming_up() const { return step < warmup; }
};

// REQUIRES: the warmup goes on.
double deepspeed_warmup(const DeepspeedSteps& at, const Options& options) {
  if (at.step < 0) return 0;
  if (options.number(kWarmupType.name) == 1) return as_real(at.step) / as_real(at.warmup);
  return 1 / std::log(as_real(at.warmup)) * std::log(as_real(at.step + 1));
}

double warmup_lr(const Span& span, const Options& options, int64_t done) {
  const DeepspeedSteps at(span, options, done);
  return at.is_warming_up() ? span.peak * deepspeed_warmup(at, options) : span.peak;
}
constexpr std::array kWarmupLrOptions = {kWarmupType};

double warmup_decay_lr(const Span& span, const Options& options, int64_t done) {
  const DeepspeedSteps at(span, options, done);
  if (at.is_warming_up()) return span.peak * deepspeed_warmup(at, options);
  return span.peak * std::max(0.0, (at.total - as_real(at.step)) / std::max(1.0, at.total - as_real(at.warmup)));
}
constexpr std::array kWarmupDecayOptions = {kWarmupType, kTotalSteps};

double warmup_cosine_lr(const Span& span, const Options& options, int64_t done) {
  const DeepspeedSteps at(span, options, done);
  if (at.step < 0) return 0;
  if (at.is_warming_up()) return span.peak * with_least(deepspeed_warmup(at, options), options.number(kWarmupMinRatio));
  const double after = as_real(at.step - at.warmup + 1), all = std::max(1.0, at.total - as_real(at.warmup));
  const double wave = (1 + std::cos(std::numbers::pi * after / all)) / 2;
  return span.peak * std::max(0.0, with_least(wave, options.number(kCosineMinRatio)));
}
constexpr std::array kWarmupCosineOptions = {
    kWarmupType, kTotalSteps, ScheduleOption{.name = kWarmupMinRatio, .value = 0, .least = 0, .most = 1},
    ScheduleOption{.name = kCosineMinRatio, .value = 0.0001, .least = 0, .most = 1}};

constexpr std::array kSchedules = {
    ScheduleDef{.name = "constant", .options = {}, .has_warmup = false, .rate = constant},
    ScheduleDef{.name = "constant_with_warmup", .options = {}, .rate = constant_with_warmup},
    ScheduleDef{.name = "linear", .options = {}, .rate = linear},
    ScheduleDef{.name = "cosine", .options = kCosineOptions, .rate = cosine},
    ScheduleDef{.name = "cosine_with_restarts", .options = kRestartOptions, .rate = cosine_with_restarts},
    ScheduleDef{
        .name = "cosine_with_min_lr", .options = kMinLrOptions, .conflict = one_minimum, .rate = cosine_with_min_lr},
    ScheduleDef{.name = "cosine_warmup_with_min_lr",
                .options = kWarmupMinLrOptions,
                .conflict = one_minimum,
                .rate = cosine_warmup_with_min_lr},
    ScheduleDef{.name = "cosine_then_constant", .options = kThenConstantOptions, .rate = cosine_then_constant},
    ScheduleDef{.name = "cosine_with_floor", .options = kFloorOptions, .rate = cosine_with_floor},
    ScheduleDef{.name = "cosine_quadratic_warmup", .options = {}, .rate = cosine_quadratic_warmup},
    ScheduleDef{.name = "polynomial", .options = kPolynomialOptions, .conflict = ends_below_peak, .rate = polynomial},
    ScheduleDef{.name = "inverse_sqrt", .options = kInverseSqrtOptions, .rate = inverse_sqrt},
    ScheduleDef{.name = "warmup_stable_decay", .options = kStableOptions, .rate = warmup_stable_decay},
    ScheduleDef{.name = "rex", .options = kRexOptions, .ahead = 1, .rate = rex},
    ScheduleDef{.name = "one_cycle", .options = kOneCycleOptions, .rate = one_cycle},
    ScheduleDef{.name = "WarmupLR", .options = kWarmupLrOptions, .rate = warmup_lr},
    ScheduleDef{.name = "WarmupDecayLR", .options = kWarmupDecayOptions, .rate = warmup_decay_lr},
    ScheduleDef{.name = "WarmupCosineLR", .options = kWarmupCosineOptions, .rate = warmup_cosine_lr},
};

}  // namespace

std::span<const ScheduleDef> all_schedules() { return kSchedules; }

}  // namespace spillway::schedules
