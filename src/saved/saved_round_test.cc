#include "saved/saved_round.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/temporary_folder.h"

using namespace spillway;
using train::Completion;
using train::Round;
using Json = nlohmann::ordered_json;

namespace {

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

Round round_of(int64_t tokens) {
  Round round{.number = 7, .completions = {}, .order = {2, 0, 1}};
  for (int64_t i = 0; i < 3; ++i) {
    Completion one{
        .row = 10 + i, .is_truncated = i == 1, .rewards = {0.1F, kNoNumber}, .advantage = -0.3, .score = 0.7};
    for (int64_t token = 0; token < tokens + i; ++token) {
      one.ids.push_back(static_cast<int32_t>(1000 * i + token));
      one.logprobs.push_back(-1.0F / static_cast<float>(token + i + 3));
      one.old_logps.push_back(i == 2 ? -kInfinity : -0.1F * static_cast<float>(token));
    }
    if (i == 1) one.logprobs = {};
    round.completions.push_back(std::move(one));
  }
  round.completions[0].old_logps[0] = kNoNumber;
  return round;
}

bool are_same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

void check_same(const Round& got, const Round& expected) {
  CHECK(got.number == expected.number);
  CHECK(got.order == expected.order);
  REQUIRE(got.completions.size() == expected.completions.size());
  for (size_t i = 0; i < expected.completions.size(); ++i) {
    CAPTURE(i);
    const Completion &a = got.completions[i], &b = expected.completions[i];
    CHECK(a.row == b.row);
    CHECK(a.ids == b.ids);
    CHECK(a.is_truncated == b.is_truncated);
    CHECK(a.advantage == b.advantage);
    CHECK(a.score == b.score);
    CHECK(are_same(a.rewards, b.rewards));
    CHECK(are_same(a.logprobs, b.logprobs));
    CHECK(are_same(a.old_logps, b.old_logps));
    CHECK(are_same(a.ref_logps, b.ref_logps));
  }
}

// A file of a weight and the tensors of a round.
struct StateFile {
  explicit StateFile(const Round& round) {
    std::vector<TensorSpec> specs = train::tensors_of(round);
    specs.push_back({"exp_avg.w", DType::kF32, {1}});
    SafetensorsWriter writer(path, specs);
    const float weight = 1;
    writer.append("exp_avg.w", &weight, DType::kF32, 1);
    train::append_tensors(round, writer);
    writer.commit();
    sums = writer.checksums();
  }

  [[nodiscard]] Round round(const Json& json) const {
    return train::round_from_json(json, SafetensorsFile(path), sums);
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "state.safetensors";
  train::TensorSums sums;
};

}  // namespace

TEST_CASE("a round comes back from a checkpoint to the last bit, its tokens from tensors") {
  const Round round = round_of(4);
  const StateFile file(round);
  CHECK(file.sums.contains("round.ids"));
  CHECK_FALSE(file.sums.contains("round.ref_logps"));  // nobody has them
  check_same(file.round(train::to_json(round)), round);
}

TEST_CASE("what a checkpoint's JSON has of a round does not grow with the tokens") {
  const auto bytes = [](int64_t tokens) { return json_text(train::to_json(round_of(tokens)), 2).size(); };
  CHECK(bytes(100'000) < bytes(10) + 100);
}

TEST_CASE("a round of a checkpoint of version 2, which lists its tokens, is read") {
  const StateFile without({.number = 0, .completions = {}, .order = {}});
  Round expected{.number = 1, .completions = {}, .order = {0}};
  expected.completions.push_back({.row = 3,
                                  .ids = {5, 2},
                                  .logprobs = {-0.5F, kNoNumber},
                                  .is_truncated = true,
                                  .rewards = {kNoNumber, 1},
                                  .advantage = 0.25,
                                  .score = 0.25,
                                  .old_logps = {-0.1F, -2}});
  const Json json = Json::parse(R"({"number": 1, "completions": [{"row": 3, "ids": [5, 2], "logprobs": [-0.5, null],
    "is_truncated": true, "rewards": [null, 1.0], "advantage": 0.25, "old_logps": [-0.10000000149011612, -2.0],
    "ref_logps": []}], "order": [0]})");
  check_same(without.round(json), expected);
}

TEST_CASE("a round whose tensors are not what was written is refused by the tensor's name") {
  const Round round = round_of(4);
  const auto refuses = [](const StateFile& file, const Json& json, const char* tensor) {
    CHECK_THROWS_WITH_AS((void)file.round(json), doctest::Contains(tensor), InputError);
  };
  const StateFile file(round);
  Json json = train::to_json(round);
  json["completions"][2]["logprobs"] = 1000;
  refuses(file, json, "expected 'round.logprobs' as it was written, got other bytes");
  json["completions"][2]["logprobs"] = -1;
  refuses(file, json, "'round.logprobs'");
  StateFile damaged(round);
  damaged.sums["round.old_logps"] = "0";
  refuses(damaged, train::to_json(round), "'round.old_logps'");
  damaged.sums.erase("round.old_logps");
  refuses(damaged, train::to_json(round), "'round.old_logps'");
}
