#include "train/job.h"

#include <doctest/doctest.h>

#include "config/load.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("a length that the model was not trained for is said with the job, before it is planned") {
  const auto notes = [](const std::string& length) {
    const std::string text =
        fmt::format("base_model: {}\noutput_dir: unused\nlearning_rate: 1\ndatasets: [{{path: unused}}]\n{}\n",
                    (kGoldenModels / "qwen3").string(), length);
    return train::make_job(config::load_config(text, "test", {}, config::ConfigUse::kTrain).config, tiered_machine())
        .notes;
  };
  const int64_t trained = read_model(kGoldenModels / "qwen3")->text()->max_position_embeddings;
  CHECK(notes(fmt::format("sequence_len: {}", trained)).empty());
  CHECK(
      notes(fmt::format("sequence_len: {}", trained + 1)) ==
      std::vector<std::string>{fmt::format("sequence_len: {} is beyond max_position_embeddings of {}, {}: no position "
                                           "behind that was trained",
                                           trained + 1, (kGoldenModels / "qwen3").string(), trained)});
  CHECK(notes("max_length: 16777216").at(0).starts_with("max_length: 16777216 is beyond"));
}
