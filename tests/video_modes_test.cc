// A plan changes no bit of a video job, nor does a run that is cut in two.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "cli/preprocess/clip_samples.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "model/model.h"
#include "model/model_folder.h"
#include "report/progress.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/video_run.h"
#include "tests/support/video_training.h"
#include "train/clips/clip_feed.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

using VideoChanges = std::vector<config::ConfigOverride>;

// The common settings. They include random draws: rows have no noise and timesteps, and come in another order each
// epoch.
VideoChanges common(const fs::path& rows) {
  return {{"datasets.0.path", rows.string()},
          {"curriculum_sampling", "false"},
          {"max_steps", "5"},
          {"training_cfg_rate", "0.3"},
          {"bf16", "true"},
          {"weighting_scheme", "logit_normal"}};
}

VideoChanges with_lines(VideoChanges changes, const VideoChanges& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

struct VideoOutcome {
  std::vector<std::map<std::string, double>> steps;
  std::string weights;

  bool operator==(const VideoOutcome&) const = default;
};

VideoOutcome video_outcome(const std::string& name, bool has_lora, const fs::path& output,
                           const VideoChanges& changes) {
  const PreferenceRun run = run_preference(video_config(name, has_lora, output, changes));
  return {run.steps, read_file(video_weights(output, has_lora), 1 << 24)};
}

VideoChanges least_video_memory(const std::string& name, bool has_lora, const fs::path& folder,
                                const VideoChanges& base) {
  VideoChanges changes = with_lines(base, {{"memory.host", "16MiB"}, {"memory.disk", "64MiB"}});
  const int64_t least =
      device_bytes_of(video_config(name, has_lora, folder, with_lines(changes, {{"memory.device", "1"}})));
  changes.push_back({"memory.device", std::to_string(least)});
  return changes;
}

}  // namespace

TEST_CASE("a plan changes no bit of a video job") {
  const std::vector<VideoChanges> plans = {
      {{"gradient_checkpointing", "true"}},
      {{"activation_offloading", "true"}},
      {{"activation_offloading", "legacy"}},
      {{"activation_offloading", "disk"}},
      {{"activation_offloading", "hidden_states"}},
      {{"micro_batch_order", "vertical"}, {"parameter_offload", "disk"}},
      {{"parameter_offload", "disk"}, {"gradient_offload", "disk"}, {"optimizer_offload", "disk"}},
  };
  for (const std::string name : kTinyWans) {
    for (const bool has_lora : {false, true}) {
      CAPTURE(name);
      CAPTURE(has_lora);
      const TemporaryFolder folder;
      const VideoChanges base = common(clips_to_draw_for(name, folder.path()));
      const VideoOutcome kept = video_outcome(name, has_lora, folder.path() / "kept", base);
      for (size_t i = 0; i < plans.size(); ++i) {
        // Its 512 rows of text and 257 of images take longer than all else.
        if (name == "i2v" && i + 1 != plans.size()) continue;
        CAPTURE(i);
        CHECK(video_outcome(name, has_lora, folder.path() / std::to_string(i), with_lines(base, plans[i])) == kept);
      }
      if (name == "t2v")
        CHECK(video_outcome(name, has_lora, folder.path() / "least",
                            least_video_memory(name, has_lora, folder.path() / "none", base)) == kept);
      if (!has_lora) continue;
      CHECK(video_outcome(name, has_lora, folder.path() / "layers", with_lines(base, {{"layer_offloading", "disk"}})) ==
            kept);
    }
  }
}

TEST_CASE("batches and accumulation do not change what is drawn for a clip") {
  const TemporaryFolder folder;
  const VideoChanges base =
      with_lines(common(clips_to_draw_for("t2v", folder.path())), {{"bf16", "false"}, {"max_steps", "4"}});
  const auto losses = [&](const char* rows, const char* batches) {
    std::vector<double> result;
    const VideoChanges changes =
        with_lines(base, {{"micro_batch_size", rows}, {"gradient_accumulation_steps", batches}});
    for (const auto& step : run_preference(video_config("t2v", false, folder.path() / rows, changes)).steps)
      result.push_back(step.at("loss"));
    return result;
  };
  const std::vector<double> two = losses("2", "2"), one = losses("1", "4"), four = losses("4", "1");
  for (size_t step = 0; step < two.size(); ++step) {
    CHECK(one[step] == doctest::Approx(two[step]).epsilon(1e-5));
    CHECK(four[step] == doctest::Approx(two[step]).epsilon(1e-5));
  }
}

TEST_CASE("each clip is told of with its own loss, also where others are fetched before it is trained on") {
  const TemporaryFolder folder;
  const train::Job job = video_job("t2v", false, folder.path() / "out", Machine{});
  const auto& kind = dynamic_cast<const train::ClipJob&>(*job.kind);
  const train::ClipSet& set = kind.sets->training;
  const auto told = [&](int64_t together) {
    std::vector<std::tuple<int64_t, int64_t, double>> samples;
    const auto tell = [&](const train::SampleSeen& one) { samples.emplace_back(one.micro_step, one.row, one.loss); };
    train::ClipFeed feed(kind, set, train::clip_order(job.config, set), 0, 1, {}, tell);
    feed.begin(0);
    const int64_t count = feed.totals().micro_batches;
    for (int64_t first = 0; first < count; first += together) {
      std::vector<data::MicroBatch> fetched;
      for (int64_t i = first; i < std::min(first + together, count); ++i)
        fetched.push_back(feed.micro_batch(i).front());
      for (const data::MicroBatch& clips : fetched) {
        std::vector<double> losses;
        for (int64_t row = 0; row < clips.rows; ++row)
          losses.push_back(static_cast<double>(samples.size()) + 10 * static_cast<double>(row));
        const std::vector<std::vector<double>> observed = {losses};
        feed.add_observed(feed.observe({.values = observed, .streams = {&clips, 1}, .rows = clips.rows}));
      }
    }
    return samples;
  };
  CHECK(told(1).size() == 4);
  CHECK(told(2) == told(1));
}

TEST_CASE("the loss of an evaluation does not depend on the share of texts that training drops") {
  const TemporaryFolder folder;
  const fs::path rows = clips_to_draw_for("t2v", folder.path());
  const auto loss = [&](const char* rate) {
    const VideoChanges changes = with_lines(common(rows), {{"training_cfg_rate", rate},
                                                           {"max_steps", "1"},
                                                           {"eval_on_start", "true"},
                                                           {"test_datasets.0.path", rows.string()}});
    return run_preference(video_config("t2v", false, folder.path() / rate, changes)).evaluations.at(0).at("loss");
  };
  CHECK(loss("1") == loss("0"));
}

TEST_CASE("a video run that is cut in two ends with the same bits, under another plan, too") {
  for (const bool has_lora : {false, true}) {
    CAPTURE(has_lora);
    const TemporaryFolder folder;
    const VideoChanges base =
        with_lines(common(clips_to_draw_for("t2v", folder.path())), {{"save_strategy", "steps"}, {"save_steps", "3"}});
    const VideoOutcome whole = video_outcome("t2v", has_lora, folder.path() / "whole", base);
    const fs::path checkpoint = folder.path() / "whole" / "checkpoint-3";
    REQUIRE(fs::exists(checkpoint));
    const VideoChanges rest =
        with_lines(base, {{"resume_from_checkpoint", checkpoint.string()}, {"activation_offloading", "disk"}});
    CHECK(video_outcome("t2v", has_lora, folder.path() / "rest", rest).weights == whole.weights);
  }
}

TEST_CASE("what full training leaves of a video model can be trained on, and sampled from, by its name") {
  const TemporaryFolder folder;
  const VideoChanges base = with_lines(common(clips_to_draw_for("t2v", folder.path())), {{"max_steps", "1"}});
  const fs::path first = folder.path() / "first";
  (void)run_preference(video_config("t2v", false, first, base));
  config::Config next = video_config("t2v", false, folder.path() / "next", base);
  next.model.base_model = model_folder(first.string(), "base_model");
  CHECK(next.model.base_model == (first / "transformer").string());
  CHECK(run_preference(next).steps.size() == 1);
  const std::string given = (video_golden("t2v") / "sample.safetensors").string();
  const Finished sampled = run_spillway({"sample", first.string(), "--text", given, "--noise", given, "--steps", "1",
                                         "--out", (folder.path() / "clip.safetensors").string()});
  CAPTURE(sampled.err);
  CHECK(sampled.status == 0);
}

TEST_CASE("what preprocess writes of a video job trains to the same bits") {
  const TemporaryFolder folder;
  const fs::path rows = clips_to_draw_for("t2v", folder.path()), written = folder.path() / "written";
  const VideoChanges base = common(rows);
  const config::Config config = video_config("t2v", false, folder.path() / "drawn", base);
  Progress progress({});
  fs::create_directories(written);
  (void)write_clip_samples(written, config, *read_model(config.model.base_model), progress);
  const VideoOutcome drawn = video_outcome("t2v", false, folder.path() / "drawn", base);
  const VideoChanges read = with_lines(base, {{"datasets.0.path", written.string()},
                                              {"curriculum_sampling", "true"},
                                              {"training_cfg_rate", "0"},
                                              {"seed", "7"}});
  CHECK(video_outcome("t2v", false, folder.path() / "read", read) == drawn);
}

// From the weights after each step, in float64. Of an adapter whose start the base is without, both files hold that
// start, too, as factors of twice the rank.
TEST_CASE("averaged weights are written beside the trained ones, and go on from a checkpoint") {
  for (const std::string adapter : {"", "lora_model_dir", "pissa", "olora"}) {
    CAPTURE(adapter);
    const bool has_lora = !adapter.empty();
    const TemporaryFolder folder;
    VideoChanges base = with_lines(common(clips_to_draw_for("t2v", folder.path())), {{"bf16", "false"},
                                                                                     {"use_ema", "true"},
                                                                                     {"ema_decay", "0.75"},
                                                                                     {"ema_start_step", "2"},
                                                                                     {"save_strategy", "steps"},
                                                                                     {"save_steps", "1"}});
    if (has_lora && adapter != "lora_model_dir")
      base = with_lines(base, {{"lora_model_dir", ""},
                               {"lora_r", "2"},
                               {"lora_target_linear", "true"},
                               {"peft_init_lora_weights", adapter}});
    const fs::path whole = folder.path() / "whole";
    (void)run_preference(video_config("t2v", has_lora, whole, base));
    const auto ema_file = [&](const fs::path& output) {
      return has_lora ? output / "pytorch_lora_weights_ema.safetensors"
                      : output / "transformer_ema" / "diffusion_pytorch_model.safetensors";
    };
    const SafetensorsFile averages(ema_file(whole));
    for (const StoredTensor& tensor : averages.tensors()) {
      CAPTURE(tensor.name);
      std::vector<double> want;
      std::vector<float> values(static_cast<size_t>(tensor.elems()));
      for (int step = 1; step <= 5; ++step) {
        const fs::path checkpoint = whole / fmt::format("checkpoint-{}", step);
        const SafetensorsFile weights(video_weights(step == 5 ? whole : checkpoint, has_lora));
        for (const StoredTensor& one : weights.tensors()) {
          if (one.name == tensor.name) weights.read(one, 0, one.elems(), DType::kF32, values.data());
        }
        if (step <= 2) want.assign(values.begin(), values.end());
        for (size_t i = 0; i < want.size() && step > 2; ++i)
          want[i] = 0.75 * want[i] + 0.25 * static_cast<double>(values[i]);
      }
      averages.read(tensor, 0, tensor.elems(), DType::kF32, values.data());
      for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(static_cast<double>(values[i]) - want[i]) < 1e-6);
    }
    const VideoChanges rest = with_lines(
        base, {{"resume_from_checkpoint", (whole / "checkpoint-3").string()}, {"optimizer_offload", "disk"}});
    (void)run_preference(video_config("t2v", has_lora, folder.path() / "rest", rest));
    CHECK(read_file(ema_file(folder.path() / "rest"), 1 << 24) == read_file(ema_file(whole), 1 << 24));
  }
}
