#include "infer/generation/decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/index.h"
#include "infer/generation/generator.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::infer;
using nlohmann::json;

namespace {

const std::filesystem::path kModels = std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models";
const std::filesystem::path kModel = kModels / "qwen3";

std::vector<int32_t> ids_of(int32_t first, int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(3 + static_cast<int32_t>((first + i * i) % 60));
  return ids;
}

class Fixture {
 public:
  explicit Fixture(const std::filesystem::path& model = kModel)
      : model_(model),
        generator_({.model = model, .sizes = {4, 2048, 512, 64}}, pool_),
        decoder_(generator_.decoder()) {}

  [[nodiscard]] Decoder& decoder() { return decoder_; }

  // Returns the answer of a generator that has only this prompt.
  [[nodiscard]] std::vector<int32_t> alone(const Prompt& prompt) {
    Generator generator({.model = model_, .sizes = generation_sizes({prompt.sequence_tokens()})}, pool_);
    return generator.generate({&prompt, 1})[0].ids;
  }

  // One token of all that are read.
  void step(int64_t runs) {
    decoder_.read_prompts(runs);
    for (const Chosen& chosen : decoder_.decode()) {
      answers[chosen.sequence].push_back(chosen.id);
      if (chosen.is_last) decoder_.leave(chosen.sequence);
    }
  }

  std::map<SequenceId, std::vector<int32_t>> answers;

 private:
  std::filesystem::path model_;
  ThreadPool pool_{2};
  Generator generator_;
  Decoder decoder_;
};

}  // namespace

TEST_CASE("sequences that join and leave between tokens get those that each gets alone") {
  Fixture fixture;
  std::map<SequenceId, Prompt> joined;
  const auto join = [&](int64_t tokens, int64_t count) {
    const Prompt prompt{ids_of(static_cast<int32_t>(tokens), tokens),
                        {.max_new_tokens = count, .temperature = 1, .seed = static_cast<uint64_t>(tokens)}};
    const std::optional<SequenceId> name = fixture.decoder().join(prompt, {});
    REQUIRE(name);
    joined[*name] = prompt;
    return *name;
  };
  join(5, 30);
  fixture.step(1);
  join(200, 12);  // read in four runs, in which the first one goes on
  const SequenceId ended = join(9, 40);
  for (int i = 0; i < 7; ++i) fixture.step(1);
  fixture.decoder().leave(ended);
  join(70, 20);
  join(1, 3);
  CHECK(!fixture.decoder().join({ids_of(0, 3), {}}, {}));  // four are decoded at once
  while (fixture.decoder().sequences() > 0) fixture.step(2);
  for (const auto& [name, prompt] : joined) {
    CAPTURE(name);
    std::vector<int32_t> expected = fixture.alone(prompt);
    if (name == ended) expected.resize(fixture.answers[name].size());
    CHECK(fixture.answers[name] == expected);
    CHECK(!expected.empty());
  }
}

TEST_CASE("a sequence with another prompt reads only what is new, and gets the tokens that it would get alone") {
  Fixture fixture;
  Prompt prompt{ids_of(1, 120), {.max_new_tokens = 10, .temperature = 1, .seed = 3}};
  const std::optional<SequenceId> name = fixture.decoder().join(prompt, {}, 400);
  REQUIRE(name);
  const auto answer = [&] {
    std::vector<int32_t> ids;
    for (;;) {
      fixture.decoder().read_prompts();
      const Chosen chosen = fixture.decoder().decode().at(0);
      ids.push_back(chosen.id);
      if (chosen.is_last) return ids;
    }
  };
  const std::vector<int32_t> first = answer();
  CHECK(first == fixture.alone(prompt));
  // The answer, and something more: in one run of 64, where all would take three.
  prompt.ids.insert(prompt.ids.end(), first.begin(), first.end());
  const std::vector<int32_t> more = ids_of(7, 40);
  prompt.ids.insert(prompt.ids.end(), more.begin(), more.end());
  fixture.decoder().renew(*name, prompt, {});
  fixture.decoder().read_prompts(1);
  CHECK(answer() == fixture.alone(prompt));
  // One that differs early, one that the last begins with, and the same again.
  prompt.ids[20] = 4;
  fixture.decoder().renew(*name, prompt, {});
  CHECK(answer() == fixture.alone(prompt));
  prompt.ids.resize(50);
  for (int i = 0; i < 2; ++i) {
    fixture.decoder().renew(*name, prompt, {});
    CHECK(answer() == fixture.alone(prompt));
  }
}

TEST_CASE("what sequences begin with in common is read once, and each gets the tokens that it would get alone") {
  Fixture fixture;
  std::map<SequenceId, Prompt> joined;
  const auto join = [&](int64_t common, int64_t own) {
    std::vector<int32_t> ids = ids_of(2, common);
    const std::vector<int32_t> more = ids_of(static_cast<int32_t>(own), own);
    ids.insert(ids.end(), more.begin(), more.end());
    const Prompt prompt{ids, {.max_new_tokens = 8 + own, .temperature = 1, .seed = static_cast<uint64_t>(own)}};
    const std::optional<SequenceId> name = fixture.decoder().join(prompt, {});
    REQUIRE(name);
    joined[*name] = prompt;
  };
  join(100, 1);
  join(100, 9);
  join(40, 30);
  // 100 tokens of the first, then what the others have of their own, are three runs of 64; all of them would be five.
  fixture.decoder().read_prompts(3);
  CHECK(fixture.decoder().decode().size() == 3);
  for (const auto& [name, prompt] : joined) fixture.decoder().leave(name);
  joined.clear();
  join(100, 2);
  for (int i = 0; i < 3; ++i) fixture.step(1);
  join(100, 11);  // of one that is decoded already
  fixture.decoder().read_prompts(1);
  join(100, 2);
  while (fixture.decoder().sequences() > 0) fixture.step(1);
  for (const auto& [name, prompt] : joined) {
    CAPTURE(name);
    CHECK(fixture.answers[name] == fixture.alone(prompt));
  }
}

TEST_CASE("a model whose layers have states shares whole prompts, and gives each sequence what it would get alone") {
  for (const char* model : {"lfm2", "qwen3_5", "nemotron_h", "falcon_h1", "jamba"}) {
    CAPTURE(model);
    Fixture fixture(kModels / model);
    std::map<SequenceId, Prompt> joined;
    const auto join = [&](int64_t common, int64_t own, uint64_t seed) {
      std::vector<int32_t> ids = ids_of(2, common);
      const std::vector<int32_t> more = ids_of(5, own);
      ids.insert(ids.end(), more.begin(), more.end());
      const Prompt prompt{ids, {.max_new_tokens = 9, .temperature = 1, .seed = seed}};
      const std::optional<SequenceId> name = fixture.decoder().join(prompt, {}, 300);
      REQUIRE(name);
      joined[*name] = prompt;
      return *name;
    };
    // Three completions of one prompt, and a sequence that begins like it and reads that for itself: 99 and 69 tokens
    // are three runs of 64.
    const SequenceId first = join(100, 0, 1);
    join(100, 0, 2);
    join(40, 30, 3);
    join(100, 0, 4);
    fixture.decoder().read_prompts(3);
    while (fixture.answers[first].size() < 4) fixture.step(1);
    for (const auto& [name, prompt] : joined) {
      std::vector<int32_t> expected = fixture.alone(prompt);
      expected.resize(4);
      CHECK(fixture.answers[name] == expected);
    }
    // Another prompt in the place of one that has decoded, whose state has gone on.
    Prompt longer = joined[first];
    longer.ids.insert(longer.ids.end(), fixture.answers[first].begin(), fixture.answers[first].end());
    fixture.decoder().renew(first, longer, {});
    fixture.answers[first].clear();
    joined[first] = longer;
    while (fixture.decoder().sequences() > 0) fixture.step(1);
    for (const auto& [name, prompt] : joined) CHECK(fixture.answers[name] == fixture.alone(prompt));
  }
}

TEST_CASE("the program chooses the tokens that the host would, side by side with those that only the host can") {
  struct Answer {
    std::vector<int32_t> ids;
    std::vector<double> logprobs;
  };
  // More ids than the program bars at once leave the choice to the host until the sequence may stop.
  const auto answers_with = [](size_t stop_ids) {
    Fixture fixture;
    std::map<SequenceId, Answer> answers;
    const auto join = [&](Sampling sampling, double penalty, double logprob_temperature) {
      sampling.max_new_tokens = 24;
      sampling.seed = 5;
      const SequenceRules rules{.stop_ids = std::vector<int32_t>(stop_ids, 7),
                                .penalties = {.repetition = penalty},
                                .logprobs = true,
                                .logprob_temperature = logprob_temperature};
      REQUIRE(fixture.decoder().join({ids_of(4, 30), sampling}, rules));
    };
    join({.min_new_tokens = 24}, 1, 1);
    join({.min_new_tokens = 24, .temperature = 1.5}, 1, 1.5);
    join({.min_new_tokens = 24, .temperature = 1.5}, 1, 0.5);
    join({.min_new_tokens = 24, .temperature = 1, .top_k = 5}, 1.3, 1);
    while (fixture.decoder().sequences() > 0) {
      fixture.decoder().read_prompts();
      for (const Chosen& chosen : fixture.decoder().decode()) {
        answers[chosen.sequence].ids.push_back(chosen.id);
        answers[chosen.sequence].logprobs.push_back(chosen.logprob);
        if (chosen.is_last) fixture.decoder().leave(chosen.sequence);
      }
    }
    return answers;
  };
  const std::map<SequenceId, Answer> by_program = answers_with(1), by_host = answers_with(kMaxBarred + 1);
  REQUIRE(by_program.size() == 4);
  for (const auto& [name, answer] : by_program) {
    CAPTURE(name);
    const Answer& host = by_host.at(name);
    CHECK(answer.ids == host.ids);
    CHECK(answer.ids.size() == 24);
    CHECK(std::find(answer.ids.begin(), answer.ids.end(), 7) == answer.ids.end());
    for (size_t i = 0; i < answer.logprobs.size(); ++i)
      CHECK(answer.logprobs[i] == doctest::Approx(host.logprobs[i]).epsilon(1e-6));
  }
}

TEST_CASE("the likeliest tokens are transformers', with the logs of their shares, and change nothing else") {
  const json golden = json::parse(read_file(kModel / "golden.json", 1 << 20))["greedy"];
  const auto logits = golden["first_logits"].get<std::vector<double>>();
  double total = 0;
  for (const double logit : logits) total += std::exp(logit);
  std::vector<int32_t> expected(logits.size());
  std::iota(expected.begin(), expected.end(), 0);
  std::sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) { return nth(logits, a) > nth(logits, b); });
  Fixture fixture;
  const Prompt prompt{golden["prompt"].get<std::vector<int32_t>>(), {.max_new_tokens = 9, .temperature = 1, .seed = 4}};
  REQUIRE(fixture.decoder().join(prompt, {.logprobs = true, .top_logprobs = 5}));
  std::vector<int32_t> ids;
  while (fixture.decoder().sequences() > 0) {
    fixture.decoder().read_prompts();
    const Chosen chosen = fixture.decoder().decode().at(0);
    REQUIRE(chosen.top.size() == 5);
    for (size_t i = 0; ids.empty() && i < chosen.top.size(); ++i) {
      CHECK(chosen.top[i].id == expected[i]);
      CHECK(chosen.top[i].logprob == doctest::Approx(nth(logits, expected[i]) - std::log(total)).epsilon(1e-5));
    }
    for (const TokenLogprob& one : chosen.top) CHECK((one.id != chosen.id || one.logprob == chosen.logprob));
    ids.push_back(chosen.id);
    if (chosen.is_last) fixture.decoder().leave(chosen.sequence);
  }
  CHECK(ids == fixture.alone(prompt));
}

TEST_CASE("a prompt's tokens have the log-probabilities that they would be chosen with, beside other sequences") {
  const std::vector<int32_t> ids = ids_of(3, 21);
  // The log-probability of each token if it were chosen after those before it.
  std::vector<float> expected;
  for (size_t i = 1; i < ids.size(); ++i) {
    Fixture fixture;
    REQUIRE(fixture.decoder().join({{ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i)}, {}},
                                   {.logprobs = true, .top_logprobs = 1000}));
    fixture.decoder().read_prompts();
    const Chosen chosen = fixture.decoder().decode().at(0);
    for (const TokenLogprob& one : chosen.top)
      if (one.id == ids[i]) expected.push_back(one.logprob);
  }
  REQUIRE(expected.size() == 20);
  for (const int others : {0, 2, 3}) {
    CAPTURE(others);
    Fixture fixture;
    std::map<SequenceId, Prompt> joined;
    const SequenceId scored =
        fixture.decoder().join({ids, {.max_new_tokens = 2}}, {.logprobs = true, .prompt_logprobs = true}).value();
    // They begin with the same, which this one does not read for them.
    for (int i = 0; i < others; ++i) {
      const Prompt prompt{ids, {.max_new_tokens = 30, .temperature = 1, .seed = static_cast<uint64_t>(i)}};
      joined[fixture.decoder().join(prompt, {}).value()] = prompt;
    }
    std::vector<float> logprobs;
    std::vector<int32_t> told;
    int64_t steps = 0;
    while (fixture.decoder().sequences() > 0) {
      fixture.decoder().read_prompts();
      ++steps;
      for (const Chosen& chosen : fixture.decoder().decode()) {
        if (chosen.sequence != scored) {
          fixture.answers[chosen.sequence].push_back(chosen.id);
        } else if (chosen.is_of_prompt) {
          told.push_back(chosen.id);
          logprobs.push_back(chosen.logprob);
          CHECK(!chosen.is_last);
        }
        if (chosen.is_last) fixture.decoder().leave(chosen.sequence);
      }
      if (steps == 6 && others == 0) CHECK(told.size() == 20);  // four at a time, then the answer
    }
    CHECK(std::equal(told.begin(), told.end(), ids.begin() + 1, ids.end()));
    for (size_t i = 0; i < expected.size(); ++i) CHECK(logprobs[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    for (const auto& [name, prompt] : joined) CHECK(fixture.answers[name] == fixture.alone(prompt));
  }
}
