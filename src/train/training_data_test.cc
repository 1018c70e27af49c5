#include "train/training_data.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/local_time.h"
#include "io/file.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;
using namespace spillway::train;

TEST_CASE("rows for evaluation follow the rule of its own packing") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += "{\"input_ids\": [1, 2], \"labels\": [1, -100]}\n{\"input_ids\": [1, 2]}\n";
  write_file(rows, lines);
  config::Config config{.base_model = SPILLWAY_SOURCE_DIR "/tests/golden/rows"};
  config.datasets.emplace_back();
  config.datasets.front().path = rows;
  config.datasets.front().type = {true, ""};
  config.length_rules = data::LengthRules::kTrl;
  config.packing = true;  // keeps rows without targets
  config.val_set_size = 12;
  const int64_t packed = load_training_data(config, {.vocab_size = 500}).validation.size();
  CHECK(packed == 12);
  config.eval_sample_packing = false;
  const int64_t alone = load_training_data(config, {.vocab_size = 500}).validation.size();
  CHECK(alone >= 4);
  CHECK(alone <= 8);
}

TEST_CASE("labels of tokenised rows are in the model's vocabulary, as their ids are") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  write_file(rows, "{\"input_ids\": [1, 2], \"labels\": [1, 300]}\n");
  config::Config config{.base_model = SPILLWAY_SOURCE_DIR "/tests/golden/rows"};  // its tokenizer has 420 tokens
  config.datasets.emplace_back();
  config.datasets.front().path = rows;
  config.datasets.front().type = {true, ""};
  const auto load = [&] { (void)load_training_data(config, {.vocab_size = 256}); };
  const char* expected = "expected token ids below the model's vocab_size 256, got 300";
  CHECK_THROWS_WITH_AS(load(), doctest::Contains(expected), InputError);
  config.dataset_prepared_path = (folder.path() / "prepared").string();
  CHECK_THROWS_WITH_AS(load(), doctest::Contains(expected), InputError);
  CHECK_THROWS_WITH_AS(load(), doctest::Contains(expected), InputError);  // rows that are mapped
}

TEST_CASE("all rows show one time, which is the caller's, from the files or from rows that were prepared that day") {
  const TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.jsonl").string();
  write_file(rows, R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
                   "\n");
  config::Config config{.base_model = SPILLWAY_SOURCE_DIR "/tests/golden/rows"};
  config.datasets.emplace_back();
  config.datasets.front().path = rows;
  config.datasets.front().type = {true, "chat_template"};
  config.train_on_inputs = true;
  config.datasets.front().chat_template_jinja =
      "{{ strftime_now('%d %b %Y') }}{% for m in messages %} {{ m.content }}{% endfor %}";
  const auto checksum = [&](const char* time) {
    return load_training_data(config, {.vocab_size = 500}, {}, time_from_text(time)).training.checksum();
  };
  const std::string monday = checksum("2024-01-01T09:00:00"), tuesday = checksum("2024-01-02T09:00:00");
  CHECK(monday != tuesday);
  config.dataset_prepared_path = (folder.path() / "prepared").string();
  for (int again = 0; again < 2; ++again) {
    CHECK(checksum("2024-01-01T10:00:00") == monday);
    CHECK(checksum("2024-01-02T10:00:00") == tuesday);
  }
}
