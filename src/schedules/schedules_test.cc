// Compares each schedule with the library that defines it, in every step: tests/golden/schedules.json, made by
// tools/make_schedule_goldens.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/index.h"

#include "schedules/schedule.h"

using namespace spillway::schedules;

namespace {

nlohmann::json golden_cases() {
  std::ifstream stream(SPILLWAY_SOURCE_DIR "/tests/golden/schedules.json");
  return nlohmann::json::parse(stream).at("cases");
}

// Returns the number for the value of the named option in the golden file.
double number_of(const ScheduleDef& schedule, const std::string& name, const nlohmann::json& value,
                 std::string_view* literal) {
  const auto option = std::find_if(schedule.options.begin(), schedule.options.end(),
                                   [&](const ScheduleOption& one) { return one.name == name; });
  REQUIRE(option != schedule.options.end());
  *literal = option->name;
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) return value.get<double>();
  const auto word = std::find(option->words.begin(), option->words.end(), value.get<std::string>());
  REQUIRE(word != option->words.end());
  return static_cast<double>(word - option->words.begin());
}

}  // namespace

TEST_CASE("every schedule gives its library's learning rate in every step") {
  std::set<std::string> seen;
  for (const nlohmann::json& one : golden_cases()) {
    CAPTURE(one.at("schedule").get<std::string>());
    CAPTURE(one.at("options").dump());
    const ScheduleDef* schedule = find_schedule(one["schedule"].get<std::string>());
    REQUIRE(schedule != nullptr);
    seen.insert(std::string(schedule->name));
    ScheduleOptions options = defaults_of(*schedule);
    for (const auto& [name, value] : one["options"].items()) {
      std::string_view literal;
      const double number = number_of(*schedule, name, value, &literal);
      options.set(literal, number);
    }
    ScheduleSpan span{one["peak"], one["warmup_steps"], one["total_steps"]};
    if (one.contains("restarts")) {
      const nlohmann::json& restarts = one["restarts"];
      span.restarts = {restarts["steps"], restarts["warmup_steps"], restarts["anneal_steps"], restarts["least"]};
    }
    CHECK((!schedule->conflict || schedule->conflict(options, span.peak).empty()));
    for (int64_t done = 0; done < span.total_steps; ++done) {
      CAPTURE(done);
      const double expected = spillway::nth(one["rates"], done);
      CHECK(std::abs(rate_of(*schedule, span, options, done) - expected) <= 1e-14 * span.peak);
    }
  }
  for (const ScheduleDef& schedule : all_schedules()) CHECK(seen.count(std::string(schedule.name)) == 1);
}

TEST_CASE("a rate is finite and not below zero, whatever the steps") {
  for (const ScheduleDef& schedule : all_schedules()) {
    CAPTURE(std::string(schedule.name));
    ScheduleOptions options = defaults_of(schedule);
    for (const ScheduleOption& option : schedule.options) {
      if (!options.find(option.name) && (option.is_required || option.name == "min_lr_rate"))
        options.set(option.name, 0.5);
    }
    for (const int64_t total : {1, 2, 3, 10}) {
      for (const int64_t warmup : {0, 1, 2, 10, 20}) {
        for (int64_t done = 0; done < total; ++done) {
          for (const bool restarts : {false, true}) {
            ScheduleSpan span{0.1, warmup, total};
            if (restarts) span.restarts = {2, 1, 1, 0.001};
            const double rate = rate_of(schedule, span, options, done);
            CHECK(std::isfinite(rate));
            CHECK(rate >= 0);
          }
        }
      }
    }
  }
}

TEST_CASE("options print as a config writes them") {
  const ScheduleDef* stable = find_schedule("warmup_stable_decay");
  REQUIRE(stable != nullptr);
  for (const ScheduleOption& option : stable->options) {
    if (option.name == "decay_type") CHECK(print_option(option, 2) == "1-sqrt");
    if (option.name == "min_lr_ratio") CHECK(print_option(option, 0.25) == "0.25");
  }
  CHECK(find_schedule("cosin") == nullptr);
}
