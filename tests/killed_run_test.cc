// The real program, killed at any moment and started again until it has finished.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"
#include "tests/support/video_run.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = TinyJob::kSteps;
const std::vector<std::string>& kResume = TinyJob::kResume;

// Runs the program until it has finished, and kills it on the way.
void finish_despite_kills(const std::vector<std::string>& arguments) {
  RandomStream random(11, 0);
  int kills = 0;
  Finished last{.status = -1};
  for (int attempt = 0; attempt < 40 && last.status != 0; ++attempt) {
    Process process(arguments);
    // Later attempts live longer, so that the job ends.
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20 + random.below(100 + 60 * static_cast<uint32_t>(attempt))));
    process.signal(SIGKILL);
    last = process.wait();
    kills += last.status == 128 + SIGKILL;
  }
  if (last.status != 0) last = run_spillway(arguments);
  CAPTURE(last.err);
  REQUIRE(last.status == 0);
  CHECK(kills > 0);
}

}  // namespace

// Groups of micro-batches that a step does not fill are cut off, too.
TEST_CASE("a run killed at any moment goes on from its last checkpoint to the same bits") {
  const std::vector<std::string> groups = {"--gradient_accumulation_steps", "3", "--micro_batch_order", "vertical",
                                           "--micro_batch_group",           "2"};
  for (const std::vector<std::string>& order : {std::vector<std::string>(), groups}) {
    CAPTURE(order.size());
    const TinyJob job;
    const Finished whole = run_spillway(job.train("whole", order));
    CAPTURE(whole.err);
    REQUIRE(whole.status == 0);
    finish_despite_kills(job.train("killed", order + kResume));
    CHECK(job.adapter("killed") == job.adapter("whole"));
    CHECK(job.losses("killed") == job.losses("whole"));
    CHECK(job.losses("whole").size() == kSteps);
    int checkpoints = 0;
    std::string names;
    for (const fs::directory_entry& entry : fs::directory_iterator(job.output("killed"))) {
      const std::string name = entry.path().filename().string();
      names += name + " ";
      checkpoints += name.starts_with("checkpoint-");
      CHECK(name.find(".tmp") == std::string::npos);
    }
    CAPTURE(names);
    CHECK(checkpoints == 2);
  }
}

// The draws for clips, and averages of the weights, continue, too.
TEST_CASE("a video run killed at any moment goes on from its last checkpoint to the same bits") {
  for (const bool has_lora : {false, true}) {
    CAPTURE(has_lora);
    const TemporaryFolder folder;
    const fs::path rows = clips_to_draw_for("t2v", folder.path());
    const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
      const fs::path config = folder.path() / (name + ".yml");
      if (!fs::exists(config)) write_file(config, video_lines("t2v", has_lora, folder.path() / name));
      std::vector<std::string> arguments = {"train", config.string()};
      for (const char* one : {"--save_strategy", "steps", "--save_steps", "3", "--max_steps", "40", "--use_ema", "true",
                              "--training_cfg_rate", "0.3"})
        arguments.emplace_back(one);
      arguments.insert(arguments.end(), {"--datasets.0.path", rows.string()});
      arguments.insert(arguments.end(), more.begin(), more.end());
      return arguments;
    };
    const Finished whole = run_spillway(train("whole", {}));
    CAPTURE(whole.err);
    REQUIRE(whole.status == 0);
    finish_despite_kills(train("killed", kResume));
    const fs::path ema =
        has_lora ? "pytorch_lora_weights_ema.safetensors" : "transformer_ema/diffusion_pytorch_model.safetensors";
    const fs::path weights = video_weights("", has_lora);
    for (const fs::path& file : {weights, ema})
      CHECK(read_file(folder.path() / "killed" / file, 1 << 24) == read_file(folder.path() / "whole" / file, 1 << 24));
  }
}

TEST_CASE("weights that can no longer be read end a run with a checkpoint of its last step") {
  const TinyJob job;
  const fs::path model = job.output("model");
  fs::copy(fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/llama2", model, fs::copy_options::recursive);
  const std::vector<std::string> args = {"--base_model", model.string(), "--layer_offloading", "disk",
                                         "--bf16",       "false",        "--max_steps",        "1000000",
                                         "--save_steps", "1000000"};
  Process process(job.train("run", args));
  const fs::path metrics = job.output("run") / "metrics.jsonl";
  while (!fs::exists(metrics) || fs::file_size(metrics) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  fs::resize_file(model / "model.safetensors", 4096);
  const Finished ended = process.wait();
  CAPTURE(ended.err);
  CHECK(ended.status == 3);
  const int step = job.losses("run").rbegin()->first;
  CHECK(fs::exists(job.output("run") / fmt::format("checkpoint-{}", step) / "adapter_model.safetensors"));
}
