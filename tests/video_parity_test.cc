// Video transformers train as diffusers, PEFT and torch train them, on the same noise and timesteps, and sample as
// diffusers' scheduler does. The numbers: tools/make_video_goldens.py.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/cmd_sample.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "tests/support/captured.h"
#include "tests/support/golden_weights.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/video_run.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kMostOffFirst = 1e-5, kMostOffNorm = 1e-4, kMostOffCurve = 1e-3, kMostOffBf16 = 0.03;

json facts_of(const std::string& name) { return json::parse(read_file(video_golden(name) / "golden.json", 1 << 20)); }

bool is_near(double ours, double theirs, double most) { return std::abs(ours - theirs) <= most * std::abs(theirs); }

void check_curve(const json& golden, const PreferenceRun& run, double most) {
  const auto losses = golden["losses"].get<std::vector<double>>(),
             norms = golden["grad_norms"].get<std::vector<double>>();
  REQUIRE(run.steps.size() == losses.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    CAPTURE(step);
    CHECK(is_near(run.steps[step].at("loss"), losses[step], most));
    CHECK(is_near(run.steps[step].at("grad_norm"), norms[step], most));
  }
}

std::vector<float> parity_numbers(const fs::path& path, std::string_view name) {
  const SafetensorsFile file(path);
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    std::vector<float> numbers(static_cast<size_t>(tensor.elems()));
    file.read(tensor, 0, tensor.elems(), DType::kF32, numbers.data());
    return numbers;
  }
  FAIL("no tensor ", name);
  return {};
}

// Returns the clip that `spillway sample` generates from the noise and texts of a golden.
std::vector<float> sampled(const fs::path& model, const std::string& golden, const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  const std::string given = (video_golden(golden) / "sample.safetensors").string(),
                    out = (folder.path() / "clip.safetensors").string();
  std::vector<std::string> arguments = {model.string(), "--text", given,   "--noise", given,
                                        "--text-len",   "6",      "--out", out};
  arguments.insert(arguments.end(), options.begin(), options.end());
  (void)capture([&] { return cmd_sample(arguments); });
  return parity_numbers(out, "latents");
}

// A little more device memory than the least to sample in, which depends on the machine's threads.
std::string least_parity_memory(const fs::path& model, const std::string& golden) {
  const TemporaryFolder folder;
  const std::string given = (video_golden(golden) / "sample.safetensors").string(),
                    out = (folder.path() / "clip.safetensors").string();
  const Finished refused = run_spillway({"sample", model.string(), "--text", given, "--noise", given, "--text-len", "6",
                                         "--guidance", "2.5", "--memory.device", "1KiB", "--out", out});
  REQUIRE(refused.status == 2);
  const std::string before = "expected at least ";
  const std::string least = refused.err.substr(refused.err.find(before) + before.size());  // "963.1 KiB, got ..."
  size_t digits = 0;
  const double number = std::stod(least, &digits);
  return fmt::format("{}{}", std::ceil(number) + 1, least.substr(digits + 1, least.find(',') - digits - 1));
}

std::vector<float> sample_of(const std::string& golden) {
  return parity_numbers(video_golden(golden) / "sample.safetensors", "latents");
}

void check_same(const std::vector<float>& ours, const std::vector<float>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(theirs[i]).epsilon(1e-3));
}

}  // namespace

TEST_CASE("video transformers train as diffusers and torch train them, in full and by LoRA") {
  for (const std::string name : kTinyWans) {
    for (const bool has_lora : {false, true}) {
      CAPTURE(name);
      CAPTURE(has_lora);
      const TemporaryFolder folder;
      const PreferenceRun run = run_preference(video_config(name, has_lora, folder.path() / "out"));
      const json golden = facts_of(name)[has_lora ? "lora" : "full"];
      check_curve(golden, run, kMostOffCurve);
      CHECK(is_near(run.steps[0].at("loss"), golden["losses"][0], kMostOffFirst));
      CHECK(is_near(run.steps[0].at("grad_norm"), golden["grad_norms"][0], kMostOffNorm));
      if (!has_lora && name != "t2v") continue;
      const fs::path start = has_lora ? video_golden(name) / "lora" / "pytorch_lora_weights.safetensors"
                                      : video_golden(name) / "transformer" / "diffusion_pytorch_model.safetensors";
      CHECK(distance_of_weights(video_golden(name) / (has_lora ? "golden_lora.safetensors" : "golden_full.safetensors"),
                                start, video_weights(run.output, has_lora)) <= kMostOffOfUpdate);
    }
  }
}

TEST_CASE("in bf16 video transformers follow the curves of f32") {
  for (const std::string name : kTinyWans) {
    for (const bool has_lora : {false, true}) {
      CAPTURE(name);
      CAPTURE(has_lora);
      const TemporaryFolder folder;
      const PreferenceRun run = run_preference(video_config(name, has_lora, folder.path() / "out", {{"bf16", "true"}}));
      check_curve(facts_of(name)[has_lora ? "lora" : "full"], run, kMostOffBf16);
    }
  }
}

// Each row has its own noise and timestep, so that the loss is diffusers'.
TEST_CASE("the loss of an evaluation is the mean over clips, however they share micro-batches") {
  for (const char* rows : {"1", "2"}) {
    const TemporaryFolder folder;
    const std::string clips = (video_golden("t2v") / "clips").string();
    const PreferenceRun run = run_preference(video_config(
        "t2v", false, folder.path() / "out",
        {{"max_steps", "1"}, {"eval_on_start", "true"}, {"eval_batch_size", rows}, {"test_datasets.0.path", clips}}));
    double sum = 0;
    const auto losses = facts_of("t2v")["clip_losses"].get<std::vector<double>>();
    for (const double loss : losses) sum += loss;
    CHECK(is_near(run.evaluations.at(0).at("loss"), sum / static_cast<double>(losses.size()), kMostOffFirst));
  }
}

TEST_CASE("samples are those of diffusers' model and scheduler") {
  for (const std::string name : kTinyWans) {
    CAPTURE(name);
    check_same(sampled(video_golden(name) / "transformer", name, {"--steps", "4", "--guidance", "2.5"}),
               sample_of(name));
  }
}

// As Wan 2.2: the first predicts timesteps from boundary_ratio * 1000 on.
TEST_CASE("a pipeline of two transformers samples as diffusers' WanPipeline does, with a guidance for each") {
  const fs::path pipeline = video_golden("two");
  const auto options = [](const char* second) {
    return std::vector<std::string>{"--steps", "6", "--guidance", "2.5", "--guidance-2", second};
  };
  const std::vector<float> both = sampled(pipeline, "two", options("1.5"));
  check_same(both, sample_of("two"));
  check_same(sampled(pipeline, "two", options("1")),
             parity_numbers(pipeline / "sample.safetensors", "latents_unguided_2"));
  // Weights that are read from the files for each step are the same.
  std::vector<std::string> in_files = options("1.5");
  in_files.insert(in_files.end(), {"--memory.device", least_parity_memory(pipeline, "two")});
  CHECK(sampled(pipeline, "two", in_files) == both);
  // Each transformer alone would draw another clip.
  for (const char* alone : {"transformer", "transformer_2"})
    CHECK(sampled(pipeline / alone, "two", {"--steps", "6", "--guidance", "2.5"}) != both);
}
