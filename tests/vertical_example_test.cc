// examples/vertical.yml on a tiny model, with the real program.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("the example of micro-batches layer by layer trains to the bits of one after another") {
  const TinyJob job;
  std::string rows;
  for (int row = 0; row < 40; ++row) {
    std::string words;
    for (int i = 0; i < 30 + row; ++i) words += fmt::format("w{} ", (row * 7 + i * i) % 96);
    rows += nlohmann::json{{"instruction", fmt::format("w{}", row)}, {"input", ""}, {"output", words}}.dump() + "\n";
  }
  job.write_rows(rows);
  const auto train = [&](const std::string& name, const std::string& order) {
    const std::string model = (source_folder() / "tests/golden/models/llama2").string();
    const Finished run =
        run_spillway({"train", (source_folder() / "examples/vertical.yml").string(), "--base_model", model,
                      "--tokenizer_config", job.output("").string(), "--datasets.0.path",
                      job.output("rows.jsonl").string(), "--output_dir", job.output(name).string(), "--sequence_len",
                      "128", "--max_steps", "2", "--lora_r", "4", "--micro_batch_order", order});
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return run.out + run.err;
  };
  CHECK(train("vertical", "vertical").find("8 micro-batches in a layer before the next") != std::string::npos);
  CHECK(train("horizontal", "horizontal").find("micro-batches in a layer") == std::string::npos);
  CHECK(job.losses("vertical").size() == 2);
  CHECK(job.losses("vertical") == job.losses("horizontal"));
  CHECK(job.adapter("vertical") == job.adapter("horizontal"));
}
