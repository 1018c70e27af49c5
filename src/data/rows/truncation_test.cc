#include "data/rows/truncation.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::data;

namespace {

using Ids = std::vector<int32_t>;

// 1, 2, ..., length; tokens from the `first_target`-th on are targets.
Row row_of(int length, int first_target = 0) {
  Row row;
  row.input_ids.resize(static_cast<size_t>(length));
  std::iota(row.input_ids.begin(), row.input_ids.end(), 1);
  row.labels = row.input_ids;
  std::fill_n(row.labels.begin(), first_target, kIgnoredLabel);
  return row;
}

struct Pair {
  Ids prompt{1, 2, 3, 4};
  std::vector<Ids> completions{{5, 6, 7}, {8, 9}};

  Fit fit(const PreferenceRule& rule) { return fit_preference(prompt, completions, rule, "rows.jsonl:3"); }
};

}  // namespace

TEST_CASE("axolotl's rule drops, cuts or refuses long rows") {
  Row row = row_of(5);
  CHECK(fit_row(row, {.sequence_len = 4}, "") == Fit::kTooLong);
  CHECK(fit_row(row, {.sequence_len = 5}, "") == Fit::kWhole);
  CHECK_THROWS_WITH_AS(
      (void)fit_row(row, {.sequence_len = 4, .long_rows = LongRows::kRaise}, "rows.jsonl:3"),
      "[rows.jsonl:3] expected a row of at most 4 tokens, got 5; raise sequence_len (or max_length), or set "
      "excess_length_strategy: drop or truncate",
      InputError);
  CHECK(fit_row(row, {.sequence_len = 4, .long_rows = LongRows::kTruncate}, "") == Fit::kTruncated);
  CHECK(row.input_ids == Ids{1, 2, 3, 4});
  Row empty;
  CHECK(fit_row(empty, {.min_sample_len = 2}, "") == Fit::kEmpty);
  Row single = row_of(1);
  CHECK(fit_row(single, {.min_sample_len = 2}, "") == Fit::kTooShort);
}

TEST_CASE("rows that are cut to what teaches nothing are dropped, which end stays deciding") {
  const LengthRule start{.sequence_len = 3, .long_rows = LongRows::kTruncate};
  LengthRule end = start;
  end.truncation_mode = TruncationMode::kKeepEnd;
  Row row = row_of(5, 3);
  CHECK(fit_row(row, start, "") == Fit::kNoTargets);
  row = row_of(5, 3);
  CHECK(fit_row(row, end, "") == Fit::kTruncated);
  CHECK(row.input_ids == Ids{3, 4, 5});
  CHECK(row.labels == Ids{-100, 4, 5});
  row = row_of(1);  // its only label is the first
  CHECK(fit_row(row, start, "") == Fit::kNoTargets);
}

TEST_CASE("the options say whose rule cuts, and packing cuts or keeps by its own") {
  RowOptions options;
  options.sequence_len = 100;
  CHECK(length_rule(options).long_rows == LongRows::kDrop);
  CHECK(length_rule(options).min_sample_len == 2);
  options.length_rules = LengthRules::kTrl;
  options.truncation_mode = TruncationMode::kKeepEnd;
  CHECK(length_rule(options).long_rows == LongRows::kTruncate);
  CHECK(length_rule(options).truncation_mode == TruncationMode::kKeepEnd);
  CHECK(length_rule(options).min_sample_len == 1);
  CHECK(!length_rule(options).keep_without_targets);
  options.packing = PackingStrategy::kBfd;
  CHECK(length_rule(options).long_rows == LongRows::kTruncate);
  CHECK(length_rule(options).truncation_mode == TruncationMode::kKeepStart);
  CHECK(length_rule(options).keep_without_targets);
  options.packing = PackingStrategy::kFirstFit;
  CHECK(length_rule(options).truncation_mode == TruncationMode::kKeepEnd);
  options.packing = PackingStrategy::kWrapped;
  CHECK(length_rule(options).long_rows == LongRows::kKeep);
  options.length_rules = LengthRules::kAxolotl;
  CHECK(length_rule(options).long_rows == LongRows::kKeep);
  options.excess_length_strategy = ExcessLength::kRaise;
  CHECK(length_rule(options).long_rows == LongRows::kRaise);
}

TEST_CASE("preference rows are cut as TRL cuts them") {
  Pair pair;
  CHECK(pair.fit({.sequence_len = 7}) == Fit::kWhole);
  CHECK(pair.fit({.sequence_len = 5}) == Fit::kTruncated);
  CHECK(pair.prompt == Ids{1, 2, 3, 4});
  CHECK(pair.completions[0] == Ids{5});
  CHECK(pair.completions[1] == Ids{8});
  CHECK(Pair().fit({.sequence_len = 4}) == Fit::kNoTargets);

  Pair end;
  CHECK(end.fit({.sequence_len = 5, .truncation_mode = TruncationMode::kKeepEnd}) == Fit::kTruncated);
  CHECK(end.prompt == Ids{3, 4});
  CHECK(end.completions[0] == Ids{5, 6, 7});
  Pair short_end;
  CHECK(short_end.fit({.sequence_len = 2, .truncation_mode = TruncationMode::kKeepEnd}) == Fit::kTruncated);
  CHECK(short_end.prompt.empty());
  CHECK(short_end.completions[0] == Ids{6, 7});
}

TEST_CASE("preference rows of all lengths are cut to what TRL's collator makes of them") {
  const std::string path = std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/truncation.json";
  const auto cases = nlohmann::json::parse(read_file(path, int64_t{1} << 20));
  for (const auto& c : cases) {
    CAPTURE(c.dump());
    const bool keeps_end = c["mode"] == "keep_end";
    Pair pair{.prompt = c["row"]["prompt_ids"], .completions = {c["row"]["chosen_ids"], c["row"]["rejected_ids"]}};
    const Fit fit = pair.fit({.sequence_len = c["max_length"],
                              .truncation_mode = keeps_end ? TruncationMode::kKeepEnd : TruncationMode::kKeepStart});
    CHECK((fit == Fit::kNoTargets) == c["made"].is_null());
    if (c["made"].is_null()) continue;
    for (size_t i = 0; i < 2; ++i) {
      CHECK(pair.prompt == c["made"][i]["prompt"].get<Ids>());
      CHECK(pair.completions[i] == c["made"][i]["completion"].get<Ids>());
    }
  }
  CHECK(cases.size() == 80);
}

TEST_CASE("the older limits keep a prompt's end and a completion's start") {
  Pair pair;
  CHECK(pair.fit({.sequence_len = 9, .max_prompt_length = 2, .max_completion_length = 1}) == Fit::kTruncated);
  CHECK(pair.prompt == Ids{3, 4});
  CHECK(pair.completions[0] == Ids{5});
  CHECK(pair.completions[1] == Ids{8});
  Pair empty;
  empty.completions[1].clear();
  CHECK(empty.fit({.sequence_len = 9}) == Fit::kNoTargets);
}

TEST_CASE("axolotl drops or refuses long preference rows, or cuts completions where the prompt leaves room") {
  PreferenceRule rule{.sequence_len = 6, .long_rows = LongRows::kDrop, .length_rules = LengthRules::kAxolotl};
  CHECK(Pair().fit(rule) == Fit::kTooLong);
  rule.long_rows = LongRows::kRaise;
  CHECK_THROWS_WITH_AS((void)Pair().fit(rule), doctest::Contains("[rows.jsonl:3] expected a row of at most 6 tokens"),
                       InputError);
  rule.long_rows = LongRows::kTruncate;
  Pair pair;
  CHECK(pair.fit(rule) == Fit::kTruncated);
  CHECK(pair.completions[0] == Ids{5, 6});
  CHECK(pair.completions[1] == Ids{8, 9});
  rule.sequence_len = 4;
  CHECK(Pair().fit(rule) == Fit::kTooLong);
}
