// Runs that go on from an adapter in a folder (lora_model_dir).
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("an adapter goes on under the config that made it, and holds against one that differs") {
  const TinyJob job;
  const std::vector<std::string> keys = {"--max_steps",
                                         "2",
                                         "--lora_target_linear",
                                         "false",
                                         "--lora_target_modules",
                                         "[q_proj, v_proj]",
                                         "--peft_layers_to_transform",
                                         "[1]",
                                         "--peft_layers_pattern",
                                         "[layers]"};
  const Finished once = run_spillway(job.train("once", keys));
  CAPTURE(once.err);
  REQUIRE(once.status == 0);
  const std::vector<std::string> on = {"--lora_model_dir", job.output("once").string()};
  const auto config_of = [&](const char* name) {
    return nlohmann::json::parse(read_file(job.output(name) / "adapter_config.json", 1 << 20));
  };
  const nlohmann::json made = config_of("once");

  const Finished same = run_spillway(job.train("same", keys + on));
  CAPTURE(same.err);
  CHECK(same.status == 0);
  CHECK(same.err.find("warning: lora") == std::string::npos);
  CHECK(same.err.find("warning: peft") == std::string::npos);
  CHECK(same.err.find("ignored") == std::string::npos);
  CHECK(config_of("same") == made);

  const std::vector<std::string> others = {"--max_steps",
                                           "2",
                                           "--lora_target_linear",
                                           "false",
                                           "--lora_target_modules",
                                           "[q_proj, k_proj]",
                                           "--lora_r",
                                           "8",
                                           "--lora_alpha",
                                           "4",
                                           "--lora_dropout",
                                           "0.2",
                                           "--lora_rank_pattern",
                                           "{q_proj: 2}"};
  const Finished other = run_spillway(job.train("other", others + on));
  CAPTURE(other.err);
  CHECK(other.status == 0);
  const std::string folder = job.output("once").string();
  for (const std::string& line :
       {"warning: lora_r is 4, as " + folder + " says, and not 8\n",
        "warning: lora_alpha is 8, as " + folder + " says, and not 4\n",
        "warning: lora_dropout is 0.1, as " + folder + " says, and not 0.2\n",
        "warning: lora_rank_pattern is another, as " + folder + " says, and not the config's\n",
        "warning: lora_target_modules means 4 layers, and " + folder + " has 2 of them: these are trained\n"}) {
    CAPTURE(line);
    CHECK(other.err.find(line) != std::string::npos);
  }
  CHECK(config_of("other") == made);
  const Finished none =
      run_spillway(job.train("none", std::vector<std::string>{"--lora_target_parameters", "[experts.down_proj]"} + on));
  CHECK(none.status == 2);
  CHECK(none.err.find("[lora_target_parameters] expected tensors of experts or routers") != std::string::npos);
  // Keys that say nothing of the adapter give no warning.
  const Finished silent = run_spillway(
      job.train("silent", std::vector<std::string>{"--max_steps", "2", "--lora_target_linear", "null", "--lora_r",
                                                   "null", "--lora_alpha", "null", "--lora_dropout", "null"} +
                              on));
  CAPTURE(silent.err);
  CHECK(silent.status == 0);
  CHECK(silent.err.find("warning: lora") == std::string::npos);
  CHECK(config_of("silent") == made);
  CHECK(job.adapter("silent") == job.adapter("same"));
}
