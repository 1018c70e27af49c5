// Every command of the real program in the order a user meets them, on tiny models out of GGUF files: import, tokenize,
// preprocess, plan, train in each way with evaluation, go on from a checkpoint, generate, merge. What one command
// writes, the next one reads.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/patience.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxJobBytes = int64_t{1} << 24;
constexpr int kWholeSteps = 6, kCheckpoint = 4;

// The varied part of the config; the rest is always the same.
struct Way {
  bool lora = false, bf16 = false, recomputes = false;
};

std::string output_text(const Way& way) {
  return std::string(way.lora ? "lora" : "full") + (way.bf16 ? " bf16" : " f32") +
         (way.recomputes ? " recomputed" : " kept");
}

// The newest checkpoint below a folder, or nothing.
std::optional<int> newest_checkpoint(const fs::path& folder) {
  std::optional<int> newest;
  if (!fs::exists(folder)) return newest;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    int step = 0;
    if (std::sscanf(name.c_str(), "checkpoint-%d", &step) == 1 && name == "checkpoint-" + std::to_string(step))
      newest = std::max(newest.value_or(0), step);
  }
  return newest;
}

// A folder with an imported model in model/ and rows of text in rows.jsonl.
class Workshop {
 public:
  // `name` is one of tests/golden/import.
  explicit Workshop(const std::string& name) {
    const fs::path file = fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/import" / (name + ".gguf");
    succeed({"import", file.string(), "--out", path("model"), "--dtype", "f32"});
    std::string rows;
    for (int i = 0; i < 20; ++i) rows += json{{"text", "hello hello " + std::to_string(i % 4)}}.dump() + "\n";
    write_file(path("rows.jsonl"), rows);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] json read_json(const std::string& name) const {
    return json::parse(read_file(path(name), kMaxJobBytes));
  }

  // Runs the program, which must exit 0; gives back its standard output.
  static std::string succeed(const std::vector<std::string>& args) {
    const Finished run = run_spillway(args);
    CAPTURE(args[0]);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return run.out;
  }

  // `command CONFIG.yml`, to write to the folder `out`.
  [[nodiscard]] std::vector<std::string> args(const std::string& command, const Way& way,
                                              const std::string& out) const {
    json config = {{"base_model", path("model")},
                   {"datasets", {{{"path", path("rows.jsonl")}, {"type", "completion"}, {"field", "text"}}}},
                   {"val_set_size", 4},
                   {"eval_steps", 2},
                   {"eval_on_start", true},
                   {"sequence_len", 32},
                   {"sample_packing", way.recomputes},
                   {"micro_batch_size", 2},
                   {"gradient_accumulation_steps", 2},
                   {"max_steps", kWholeSteps},
                   {"save_steps", kCheckpoint},
                   {"learning_rate", 0.01},
                   {"bf16", way.bf16},
                   {"gradient_checkpointing", way.recomputes},
                   {"output_dir", path(out)}};
    if (way.lora)
      config.update(
          {{"adapter", "lora"}, {"lora_r", 4}, {"lora_alpha", 8}, {"lora_dropout", 0.1}, {"lora_target_linear", true}});
    write_file(path("config.yml"), config.dump());  // YAML has JSON in it
    return {command, path("config.yml")};
  }

  // Trains into `out`; gives back the loss of every step and checks those of the evaluations.
  [[nodiscard]] std::vector<double> train(const Way& way, const std::string& out,
                                          const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = args("train", way, out);
    all.insert(all.end(), more.begin(), more.end());
    succeed(all);
    std::vector<double> losses;
    const bool goes_on = std::find(more.begin(), more.end(), "--resume_from_checkpoint") != more.end();
    int evaluations = 0;
    const std::string lines = read_file(path(out + "/metrics.jsonl"), kMaxJobBytes);
    for (size_t begin = 0; begin < lines.size(); begin = lines.find('\n', begin) + 1) {
      const json line = json::parse(lines.substr(begin, lines.find('\n', begin) - begin));
      if (line.contains("loss")) losses.push_back(line["loss"]);
      if (!line.contains("eval_loss")) continue;
      const double loss = line["eval_loss"], accuracy = line["eval_mean_token_accuracy"];
      CHECK(std::isfinite(loss));
      CHECK(line["eval_perplexity"].get<double>() == doctest::Approx(std::exp(loss)));
      CHECK((accuracy >= 0 && accuracy <= 1));
      if (evaluations++ == 0) CHECK((line["step"] == 0) == !goes_on);
    }
    CHECK(evaluations > 0);
    return losses;
  }

  [[nodiscard]] std::string weights(const Way& way, const std::string& out) const {
    return read_file(path(out + (way.lora ? "/adapter_model.safetensors" : "/model.safetensors")), kMaxJobBytes);
  }

  [[nodiscard]] json generate(const std::string& model, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"generate", path(model), "--prompt", "hello", "--max-new-tokens", "8", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return json::parse(succeed(all));
  }

 private:
  TemporaryFolder folder_;
};

// Trains, goes on from the checkpoint in the middle, generates from the result.
void check_training(const Workshop& shop, const Way& way) {
  CAPTURE(output_text(way));
  const std::string out = output_text(way), resumed = out + " resumed";
  const std::vector<double> losses = shop.train(way, out);
  REQUIRE(losses.size() == kWholeSteps);
  CHECK(losses.back() < losses.front());
  const std::string checkpoint = shop.path(out + "/checkpoint-" + std::to_string(kCheckpoint));
  (void)shop.train(way, resumed, {"--resume_from_checkpoint", checkpoint});
  CHECK(shop.weights(way, resumed) == shop.weights(way, out));
  const json answer = way.lora ? shop.generate("model", {"--adapter", shop.path(out)}) : shop.generate(out);
  CHECK(answer["ids"].size() <= 8);
}

// Trains with the gradients and the optimizer's state on disk, lets `damage` happen once there is a checkpoint, and
// checks that the run ends with exit 3 and that the checkpoint goes on to the bits of a run that nothing happened to.
// Gives back the run's last line.
std::string check_failing_disk(const std::function<void(const Process&)>& damage) {
  const Workshop shop("llama");
  const std::string out = shop.path("out");
  const auto train = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> args = shop.args("train", {}, folder);
    args.insert(args.end(), {"--optimizer_offload", "disk", "--gradient_offload", "disk", "--memory.disk_checksum",
                             "true", "--lr_scheduler", "constant", "--save_steps", "5", "--save_total_limit", "1",
                             "--eval_steps", "100000", "--metrics", "false", "--logging_steps", "100000"});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  Process running(train("out", {"--max_steps", "100000"}));
  REQUIRE(comes_true([&] { return newest_checkpoint(out).has_value(); }));
  damage(running);
  const Finished failed = running.wait();
  CAPTURE(failed.err);
  CHECK(failed.status == 3);
  const std::string message = failed.err.substr(failed.err.rfind('\n', failed.err.size() - 2) + 1);
  CHECK(message.starts_with("["));
  CHECK(message.find("; ") != std::string::npos);

  const std::optional<int> step = newest_checkpoint(out);
  REQUIRE(step);
  const std::string last = std::to_string(*step + 1);
  Workshop::succeed(train("resumed", {"--max_steps", last, "--resume_from_checkpoint",
                                      shop.path("out/checkpoint-" + std::to_string(*step))}));
  Workshop::succeed(train("whole", {"--max_steps", last}));
  CHECK(shop.weights({}, "resumed") == shop.weights({}, "whole"));
  return message;
}

}  // namespace

TEST_CASE("an imported model is trained in every way, and what comes out goes in again") {
  const Workshop shop("llama");
  for (const bool lora : {false, true}) {
    for (const bool bf16 : {false, true}) {
      for (const bool recomputes : {false, true}) check_training(shop, {lora, bf16, recomputes});
    }
  }
}

TEST_CASE("models with tied embeddings, norms of heads and sliding windows go the same way") {
  for (const char* name : {"mistral", "qwen2", "qwen3"}) {
    CAPTURE(name);
    const Workshop shop(name);
    for (const bool lora : {false, true}) check_training(shop, {.lora = lora, .bf16 = true});
  }
}

TEST_CASE("a merged model says what its base says with the adapter") {
  const Workshop shop("llama");
  (void)shop.train({.lora = true}, "adapter");
  Workshop::succeed(
      {"merge", shop.path("model"), "--adapter", shop.path("adapter"), "--out", shop.path("merged"), "--json"});
  CHECK(shop.generate("merged")["ids"] == shop.generate("model", {"--adapter", shop.path("adapter")})["ids"]);
  const std::vector<std::string> sampling = {"--temperature", "0.8", "--top-p",   "0.9", "--top-k", "20",
                                             "--seed",        "3",   "--logprobs"};
  const json sampled = shop.generate("merged", sampling);
  CHECK(sampled == shop.generate("merged", sampling));
  CHECK(sampled["logprobs"].size() == sampled["ids"].size());
}

TEST_CASE(
    "prompts that are answered during training change nothing of it, and the last answers are those of generate") {
  const Workshop shop("qwen3");
  const Way way{.lora = true};
  const std::vector<double> losses = shop.train(way, "plain");
  for (const std::string frozen : {"false", "disk"}) {
    CAPTURE(frozen);
    const std::string out = "asked " + frozen;
    const std::vector<std::string> asking = {
        "--sample_every_steps", "2",    "--sample_prompts",        "[hello, hello hello 3 hello]",
        "--layer_offloading",   frozen, "--sample_max_new_tokens", "8"};
    CHECK(shop.train(way, out, asking) == losses);
    CHECK(shop.weights(way, out) == shop.weights(way, "plain"));
    const json samples = shop.read_json(out + "/report.json")["samples"];
    REQUIRE(samples.size() >= 4);
    CHECK(samples[0]["step"] == 2);
    const json last = samples[samples.size() - 2];
    CHECK(last["step"] == kWholeSteps);
    CHECK(last["prompt"] == "hello");
    CHECK(last["text"] == shop.generate("model", {"--adapter", shop.path(out)})["text"]);
  }
}

TEST_CASE("answers that do not fit the budget which training fits are refused before anything runs") {
  const Workshop shop("qwen3");
  std::vector<std::string> args = shop.args("plan", {.lora = true}, "out");
  for (const char* more : {"--memory.device", "12MiB", "--sample_prompts", "[hello]", "--sample_max_new_tokens"})
    args.emplace_back(more);
  args.emplace_back("8");
  CHECK(run_spillway(args).status == 0);
  args.back() = "60000";
  const Finished refused = run_spillway(args);
  CHECK(refused.status == 2);
  CHECK(refused.err.find("sample_prompts, got 12.0 MiB") != std::string::npos);
}

TEST_CASE("each of many prompts is answered as if it were alone") {
  const Workshop shop("llama");
  const std::vector<json> lines = {{{"prompt", "hello"}, {"max_new_tokens", 8}},
                                   {{"prompt", "hello hello 2 hello 1"}, {"max_new_tokens", 3}},
                                   {{"prompt", "hello 3"}, {"temperature", 0.9}, {"top_k", 10}, {"seed", 5}}};
  std::string text;
  for (const json& line : lines) text += line.dump() + "\n";
  write_file(shop.path("prompts.jsonl"), text);
  const std::vector<std::string> args = {"generate", shop.path("model"), "--json-lines", "--max-new-tokens",
                                         "12",       "--logprobs",       "--lines"};
  const auto answers = [&](const std::string& file) {
    std::vector<std::string> all = args;
    all.push_back(shop.path(file));
    return Workshop::succeed(all);
  };
  std::string alone;
  for (const json& line : lines) {
    write_file(shop.path("one.jsonl"), line.dump() + "\n");
    alone += answers("one.jsonl");
  }
  CHECK(answers("prompts.jsonl") == alone);
  CHECK(json::parse(alone.substr(0, alone.find('\n')))["ids"] == shop.generate("model")["ids"]);

  write_file(shop.path("prompts.jsonl"), "{\"prompt\": \"hello\"}\n{\"prompt\": \"hello\", \"top_p\": 2}\n");
  std::vector<std::string> wrong = args;
  wrong.push_back(shop.path("prompts.jsonl"));
  const Finished refused = run_spillway(wrong);
  CHECK(refused.status == 2);
  CHECK(refused.err.find("prompts.jsonl:2: top_p]") != std::string::npos);
}

TEST_CASE("a disk that fails under the run ends it with exit 3, and the last checkpoint goes on to the same bits") {
  const std::string message = check_failing_disk([](const Process& run) { run.limit_files(8 << 10); });
  CHECK(message.find("File too large") != std::string::npos);
}

TEST_CASE(
    "a disk that returns other bytes ends the run with exit 3, and the last checkpoint goes on to the same bits") {
  const std::string message = check_failing_disk([](const Process& run) {
    // Again and again, since what is overwritten may be written once more before it is read.
    for (std::vector<fs::path> files = run.nameless_files(); !files.empty(); files = run.nameless_files()) {
      for (const fs::path& file : files) std::fstream(file, std::ios::binary | std::ios::in | std::ios::out) << "torn";
    }
  });
  CHECK(message.find("expected the bytes that were written at offset 0 of the scratch file (block 0") !=
        std::string::npos);
}

TEST_CASE("a disk whose file is cut short ends the run with exit 3, and the last checkpoint goes on to the same bits") {
  const std::string message = check_failing_disk([](const Process& run) {
    for (std::vector<fs::path> files = run.nameless_files(); !files.empty(); files = run.nameless_files()) {
      std::error_code ended;
      for (const fs::path& file : files) fs::resize_file(file, 0, ended);
    }
  });
  // Where a later block was written meanwhile, the file is long enough again, with a hole in it.
  const bool is_end = message.find("of the scratch file, got \"the end of the file\"") != std::string::npos;
  const bool is_hole = message.find("expected the bytes that were written") != std::string::npos;
  CHECK((is_end || is_hole));
}

TEST_CASE("a run that diverges ends with exit 2, and leaves no model under its final name") {
  const Workshop shop("llama");
  std::vector<std::string> args = shop.args("train", {}, "out");
  args.insert(args.end(), {"--optimizer", "sgd", "--learning_rate", "1000", "--lr_scheduler", "constant",
                           "--max_grad_norm", "0", "--max_steps", "100", "--save_steps", "1"});
  const Finished run = run_spillway(args);
  CAPTURE(run.err);
  CHECK(run.status == 2);
  CHECK(run.err.find("] expected a loss and gradients that are finite, got NaN from ") != std::string::npos);
  CHECK(run.err.find(" in layer ") != std::string::npos);
  CHECK(!fs::exists(shop.path("out/model.safetensors")));
  const std::string metrics = read_file(shop.path("out/metrics.jsonl"), kMaxJobBytes);
  const json last = json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1));
  CHECK((last["loss"].is_null() || last["grad_norm"].is_null()));
  CHECK(newest_checkpoint(shop.path("out")).value_or(0) == last["step"].get<int>() - 1);
}

TEST_CASE("preprocess and plan agree with the training they come before") {
  const Workshop shop("qwen3");
  const Way way = {.lora = true};
  const json tokens = json::parse(Workshop::succeed({"tokenize", shop.path("model"), "--text", "hello", "--json"}));
  CHECK(tokens["text"] == "hello");
  std::vector<std::string> args = shop.args("preprocess", way, "out");
  args.insert(args.end(), {"--out", shop.path("rows"), "--json"});
  const json summary = json::parse(Workshop::succeed(args));
  CHECK(summary["rows_read"] == 20);
  CHECK(summary["rows"] == 16);
  CHECK(summary == shop.read_json("rows/summary.json"));
  args = shop.args("plan", way, "out");
  args.insert(args.end(), {"--memory.plan", "fixed"});
  CHECK_FALSE(Workshop::succeed(args).empty());
  args.emplace_back("--json");
  const json plan = json::parse(Workshop::succeed(args));
  (void)shop.train(way, "out", {"--memory.plan", "fixed"});
  const json measured = shop.read_json("out/report.json")["tiers"]["device"];
  CHECK(plan["tiers"]["device"]["peak_bytes"] == measured["measured_peak_bytes"]);
}
