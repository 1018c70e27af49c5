#include "train/online/completion.h"

#include <cmath>
#include <limits>

namespace spillway::train {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN, and f32 numbers come back from the shortest text of their double.
Json numbers_json(const std::vector<float>& numbers) {
  Json json = Json::array();
  for (const float one : numbers) json.push_back(std::isnan(one) ? Json() : Json(one));
  return json;
}

std::vector<float> completion_numbers(const Json& json) {
  std::vector<float> numbers;
  for (const Json& one : json)
    numbers.push_back(one.is_null() ? std::numeric_limits<float>::quiet_NaN() : one.get<float>());
  return numbers;
}

}  // namespace

Json to_json(const Round& round) {
  Json completions = Json::array();
  for (const Completion& one : round.completions) {
    completions.push_back({{"row", one.row},
                           {"ids", one.ids},
                           {"logprobs", numbers_json(one.logprobs)},
                           {"is_truncated", one.is_truncated},
                           {"rewards", numbers_json(one.rewards)},
                           {"advantage", one.advantage},
                           {"old_logps", numbers_json(one.old_logps)},
                           {"ref_logps", numbers_json(one.ref_logps)}});
  }
  return {{"number", round.number}, {"completions", std::move(completions)}, {"order", round.order}};
}

Round round_from_json(const Json& json) {
  Round round{.number = json.at("number"), .order = json.at("order").get<std::vector<int64_t>>()};
  for (const Json& one : json.at("completions")) {
    round.completions.push_back({.row = one.at("row"),
                                 .ids = one.at("ids").get<std::vector<int32_t>>(),
                                 .logprobs = completion_numbers(one.at("logprobs")),
                                 .is_truncated = one.at("is_truncated"),
                                 .rewards = completion_numbers(one.at("rewards")),
                                 .advantage = one.at("advantage"),
                                 .old_logps = completion_numbers(one.at("old_logps")),
                                 .ref_logps = completion_numbers(one.at("ref_logps"))});
  }
  return round;
}

}  // namespace spillway::train
