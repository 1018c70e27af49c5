// Video transformers train as diffusers, PEFT and torch train them, on the same noise and timesteps, and sample as
// diffusers' scheduler does. The numbers: tools/make_video_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/cmd_sample.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "tests/support/captured.h"
#include "tests/support/golden_weights.h"
#include "tests/support/preference_run.h"
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

std::vector<float> numbers_of(const fs::path& path, std::string_view name) {
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
    const TemporaryFolder folder;
    const fs::path golden = video_golden(name), out = folder.path() / "clip.safetensors";
    const std::string given = (golden / "sample.safetensors").string();
    (void)capture([&] {
      return cmd_sample(std::vector<std::string>{(golden / "transformer").string(), "--text", given, "--noise", given,
                                                 "--steps", "4", "--guidance", "2.5", "--text-len", "6", "--out",
                                                 out.string()});
    });
    const std::vector<float> ours = numbers_of(out, "latents"), theirs = numbers_of(given, "latents");
    REQUIRE(ours.size() == theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(theirs[i]).epsilon(1e-3));
  }
}
