// Tests that an invalid video job ends with status 2 and a message, before any weight is read, and leaves no folder
// behind.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/video_run.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

// A config of the tiny text-to-video model, with these lines more.
std::string refused_video(const std::string& model, const std::string& more) {
  return fmt::format(
      "base_model: {}\ndatasets:\n  - path: {}/clips\n    type: video_latents\nlearning_rate: 1e-4\nmax_steps: 1\n"
      "text_len: 6\n{}\n",
      model, video_golden("t2v").string(), more);
}

void check_video_refused(const std::string& config, const std::string& message) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "video.yml", out = folder.path() / "out";
  write_file(file, config);
  const Finished finished = run_spillway({"train", file.string(), "--output_dir", out.string()});
  CAPTURE(config);
  CAPTURE(finished.err);
  CHECK(finished.status == 2);
  CHECK(finished.err.find(message) != std::string::npos);
  CHECK_FALSE(fs::exists(out));
}

// The transformer's folder with other text in its config.json.
fs::path changed_video_model(const fs::path& folder, const std::string& from, const std::string& to) {
  const fs::path model = folder / "transformer";
  fs::copy(video_golden("t2v") / "transformer", model);
  std::string config = read_file(model / "config.json", 1 << 20);
  const size_t at = config.find(from);
  REQUIRE(at != std::string::npos);
  fs::remove(model / "config.json");
  write_file(model / "config.json", config.replace(at, from.size(), to));
  return model;
}

}  // namespace

TEST_CASE("keys of text are refused beside a model of video, and the other way round") {
  const std::string model = video_golden("t2v").string();
  check_video_refused(refused_video(model, "chat_template: chatml"),
                      "chat_template] expected no chat_template for a model of video");
  check_video_refused(refused_video(model, "sample_packing: true"), "expected no sample_packing for a model of video");
  for (const char* key : {"eos_token: x", "pad_token: x", "tokens: [x]", "resize_token_embeddings_to_32x: true",
                          "min_sample_len: 3", "max_prompt_length: 3", "excess_length_strategy: truncate",
                          "dataset_text_field: x", "packing_strategy: bfd", "padding_free: true"}) {
    const std::string line = key, name = line.substr(0, line.find(':'));
    check_video_refused(refused_video(model, line), fmt::format("expected no {} for a model of video", name));
  }
  check_video_refused(refused_video(model, "special_tokens: {pad_token: x}"),
                      "expected no special_tokens.pad_token for a model of video");
  check_video_refused(refused_video(model, "rl: dpo"), "rl] expected no rl for a model of video, got one; remove it");
  check_video_refused(refused_video(model, "adapter: lora\nlora_r: 4\nlora_modules_to_save: [proj_out]"),
                      "[lora_modules_to_save] expected none for a model of video");
  const std::string text = (source_folder() / "tests/golden/models/llama2").string();
  check_video_refused(
      fmt::format("base_model: {}\ndatasets:\n  - path: x.jsonl\nlearning_rate: 1e-4\nflow_shift: 3\n", text),
      "expected no flow_shift for a model of text");
}

TEST_CASE("an adapter of diffusers says its rank and its alpha") {
  const std::string model = video_golden("t2v").string(), lora = (video_golden("t2v") / "lora").string();
  const std::string keys = "adapter: lora\nlora_model_dir: " + lora + "\n";
  const TemporaryFolder folder;
  const fs::path config = folder.path() / "video.yml";
  write_file(config, refused_video(model, keys + "lora_r: 4\nlora_alpha: 7"));
  const Finished planned = run_spillway({"plan", config.string()});
  CHECK(planned.status == 0);
  CHECK(planned.err.find(fmt::format("lora_r is 3, as {} says, and not 4", lora)) != std::string::npos);
  CHECK(planned.err.find(fmt::format("lora_alpha is 5, as {} says, and not 7", lora)) != std::string::npos);
}

TEST_CASE("keys of datasets that rows of clips do not have are refused by name") {
  const std::string model = video_golden("t2v").string();
  const std::string config = fmt::format("base_model: {}\nlearning_rate: 1e-4\noutput_dir: out\ndatasets:\n", model);
  for (const std::string key :
       {"split: train[:3]", "data_files: [a.safetensors]", "ds_type: json", "name: one", "revision: main"}) {
    const std::string name = key.substr(0, key.find(':'));
    check_video_refused(
        fmt::format("{}  - path: {}/clips\n    {}\n", config, model, key),
        fmt::format("[datasets.0.{}] expected no {} for a model of video, got one; remove it", name, name));
  }
  check_video_refused(fmt::format("{}  - path: {}/clips\n    field_messages: x\n", config, model),
                      "datasets.0.field_messages] expected an option that rows without a type read");
}

TEST_CASE("an adapter with a score is none for a model of video") {
  const std::string score = (source_folder() / "tests/golden/preference_training/adapter_reward").string();
  check_video_refused(refused_video(video_golden("t2v").string(), "adapter: lora\nlora_model_dir: " + score),
                      fmt::format("[{}] expected an adapter of a model that reads no text", score));
}

TEST_CASE("what a video config says must be possible") {
  const std::string model = video_golden("t2v").string();
  check_video_refused(refused_video(model, "weighting_scheme: cosmap"), "weighting_scheme");
  check_video_refused(refused_video(model, "min_timestep: 900\nmax_timestep: 100"), "min_timestep");
  check_video_refused(refused_video(model, "clip_shape: [4, 3, 5, 6]"), "[clip_shape] expected 4 channels");
  check_video_refused(refused_video(model, "clip_shape: [4, 1, 2, 2]"),
                      "[clip_shape] expected a shape of at least 18 patches");
  check_video_refused(refused_video(model, "component: transformer_2"),
                      "expected a folder transformer_2 in the pipeline");
  check_video_refused(refused_video(model, "adapter: lora\nlora_r: 4\nlora_target_modules: [to_z]"),
                      "(to_q, to_k, to_v, to_out.0, proj, net.2), got 'to_z'");
  check_video_refused(refused_video(model, "betas: \"0.9\""), "expected two numbers");
  check_video_refused(refused_video(model, "hsdp_shard_dim: 0"), "hsdp_shard_dim");
  check_video_refused(refused_video(model, "data_path: a:x"), "expected datasets or data_path, got both");
}

TEST_CASE("other classes of diffusers, and sizes that do not fit the files, are refused by name") {
  const auto check = [](const std::string& from, const std::string& to, const std::string& message) {
    const TemporaryFolder folder;
    check_video_refused(
        refused_video(changed_video_model(folder.path(), from, to).string(), "normalize_latents: false"), message);
  };
  check("WanTransformer3DModel", "HunyuanVideoTransformer3DModel", "HunyuanVideoTransformer3DModel");
  check("WanTransformer3DModel", "LTXVideoTransformer3DModel", "LTXVideoTransformer3DModel");
  check("\"attention_head_dim\": 12", "\"attention_head_dim\": 13", "attention_head_dim");
  check("\"num_layers\": 2", "\"num_layers\": 3", "blocks.2.");
  check("\"num_layers\": 2", "\"num_layers\": 1", "blocks.1.");
  check("\"text_dim\": 10", "\"text_dim\": 11", "text_embedding");
  check("\"in_channels\": 4", "\"in_channels\": 3", "in_channels");
}

namespace {

// Runs `spillway sample` with a pipeline and the text of the golden of two transformers.
Finished sample(const fs::path& model, const std::vector<std::string>& options) {
  const TemporaryFolder folder;
  const std::string given = (video_golden("two") / "sample.safetensors").string();
  std::vector<std::string> arguments = {
      "sample",  model.string(), "--text", given,
      "--noise", given,          "--out",  (folder.path() / "clip.safetensors").string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_spillway(arguments);
}

void check_sample_refused(const fs::path& model, const std::vector<std::string>& options, const std::string& message) {
  const Finished finished = sample(model, options);
  CAPTURE(finished.err);
  CHECK(finished.status == 2);
  CHECK(finished.err.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("a clip and its animation are two files, numbers are numbers, and adapters no models") {
  const fs::path model = video_golden("t2v");
  const TemporaryFolder folder;
  const std::string given = (model / "sample.safetensors").string(), out = (folder.path() / "y.safetensors").string();
  const auto refused = [&](const std::vector<std::string>& options, const std::string& message) {
    std::vector<std::string> arguments = {"sample", model.string(), "--text", given, "--noise", given, "--out", out};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Finished finished = run_spillway(arguments);
    CAPTURE(finished.err);
    CHECK(finished.status == 2);
    CHECK(finished.err.find(message) != std::string::npos);
    CHECK_FALSE(fs::exists(out));
  };
  refused({"--gif", out}, "[--gif] expected another file than that of --out");
  refused({"--gif", (folder.path() / "." / "y.safetensors").string()}, "[--gif] expected another file");
  refused({"--guidance", "nan"}, "nan");
  refused({"--flow-shift", "-nan"}, "nan");
  refused({"--adapter", model.string()}, "expected the folder of a LoRA adapter, got one of a whole model");
}

TEST_CASE("a pipeline whose two transformers cannot sample together is refused, and what only two of them have") {
  check_sample_refused(video_golden("t2v"), {"--guidance-2", "3"},
                       "[--guidance-2] expected a pipeline with boundary_ratio in its model_index.json");
  const std::string lora = (video_golden("t2v") / "lora").string();
  check_sample_refused(video_golden("two") / "transformer_2", {"--adapter-2", lora},
                       "[--adapter-2] expected a pipeline with boundary_ratio");
  check_sample_refused(video_golden("two"), {"--adapter-2", lora},
                       "[--adapter-2] expected an adapter of transformer_2, got one of transformer");

  const TemporaryFolder folder;
  const fs::path pipeline = folder.path() / "pipeline";
  fs::copy(video_golden("two"), pipeline, fs::copy_options::recursive);
  const fs::path second = pipeline / "transformer_2";
  fs::remove_all(second);
  check_sample_refused(pipeline, {}, "[MODEL] expected a folder transformer_2 in the pipeline");
  fs::copy(video_golden("odd") / "transformer", second);
  check_sample_refused(pipeline, {}, "expected two transformers of clips and texts of the same sizes");
  fs::remove(pipeline / "model_index.json");
  write_file(pipeline / "model_index.json", R"({"_class_name": "WanPipeline", "boundary_ratio": 875})");
  check_sample_refused(pipeline, {}, "model_index.json: boundary_ratio] expected a number from 0 to 1");
}
