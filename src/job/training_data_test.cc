#include "job/training_data.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/local_time.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/captured.h"

using namespace spillway;
using namespace spillway::train;

namespace {

data::DataSettings tokenised(const std::string& file) {
  data::DataSettings settings;
  settings.datasets.emplace_back().path = file;
  settings.datasets.front().type = {true, ""};
  return settings;
}

// With a tokenizer of 420 tokens.
TrainingData load_data(const data::DataSettings& settings, int64_t vocab_size, const std::optional<std::tm>& now = {}) {
  const config::TokenizerSettings tokenizer{.folder = SPILLWAY_SOURCE_DIR "/tests/golden/rows"};
  return load_training_data(settings, tokenizer, vocab_size, {}, now);
}

}  // namespace

TEST_CASE("rows for evaluation follow the rule of its own packing") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += "{\"input_ids\": [1, 2], \"labels\": [1, -100]}\n{\"input_ids\": [1, 2]}\n";
  write_file(rows, lines);
  data::DataSettings settings = tokenised(rows);
  settings.rows.length_rules = data::LengthRules::kTrl;
  settings.batches.packing = settings.evaluation_batches.packing = data::PackingStrategy::kBfd;
  settings.val_set_size = 12;
  const int64_t packed = load_data(settings, 500).validation.size();  // which keeps rows without targets
  CHECK(packed == 12);
  settings.evaluation_batches.packing.reset();
  const int64_t alone = load_data(settings, 500).validation.size();
  CHECK(alone >= 4);
  CHECK(alone <= 8);
}

TEST_CASE("pairs that are kept for evaluation are as many as were asked for") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  std::string lines;
  for (int i = 0; i < 9; ++i)
    lines += fmt::format("{{\"prompt\": \"a{}\", \"chosen\": \"b\", \"rejected\": \"c\"}}\n", i);
  write_file(rows, lines);
  data::DataSettings settings;
  settings.datasets.emplace_back().path = rows;
  settings.rows.objective = data::Objective::kPairs;
  settings.val_set_size = 5;
  TrainingData data;
  const Captured said = capture([&] {
    data = load_data(settings, 500);
    return 0;
  });
  CHECK(said.err.find("val_set_size: 5 of these rows are for evaluation, 4 for training") != std::string::npos);
  CHECK(data.validation.size() == 5);  // whatever stands where rows of text have their labels
  CHECK(data.training.size() == 4);
}

TEST_CASE("labels of tokenised rows are in the model's vocabulary, as their ids are") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  write_file(rows, "{\"input_ids\": [1, 2], \"labels\": [1, 300]}\n");
  data::DataSettings settings = tokenised(rows);
  const auto load_small = [&] { (void)load_data(settings, 256); };
  const char* expected = "expected token ids below the model's vocab_size 256, got 300";
  CHECK_THROWS_WITH_AS(load_small(), doctest::Contains(expected), InputError);
  settings.prepared_path = (folder.path() / "prepared").string();
  CHECK_THROWS_WITH_AS(load_small(), doctest::Contains(expected), InputError);
  CHECK_THROWS_WITH_AS(load_small(), doctest::Contains(expected), InputError);  // rows that are mapped
}

TEST_CASE("all rows show one time, which is the caller's, from the files or from rows that were prepared that day") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  write_file(rows, R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
                   "\n");
  data::DataSettings settings = tokenised(rows);
  settings.datasets.front().type = {true, "chat_template"};
  settings.rows.train_on_inputs = true;
  settings.datasets.front().chat_template_jinja =
      "{{ strftime_now('%d %b %Y') }}{% for m in messages %} {{ m.content }}{% endfor %}";
  const auto checksum = [&](const char* time) {
    return load_data(settings, 500, time_from_text(time)).training.checksum();
  };
  const std::string monday = checksum("2024-01-01T09:00:00"), tuesday = checksum("2024-01-02T09:00:00");
  CHECK(monday != tuesday);
  settings.prepared_path = (folder.path() / "prepared").string();
  for (int again = 0; again < 2; ++again) {
    CHECK(checksum("2024-01-01T10:00:00") == monday);
    CHECK(checksum("2024-01-02T10:00:00") == tuesday);
  }
}
