// The real program, run as a user runs it: stopped, resumed, and what it finds of an earlier run.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/bytes.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/checkpoints.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"
#include "tests/support/video_run.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string>& kResumeArgs = TinyJob::kResume;

// Waits until a run has done a step.
void wait_for_step(const fs::path& output) {
  const auto has_step = [&] {
    std::error_code none;
    return fs::exists(output / "metrics.jsonl") && fs::file_size(output / "metrics.jsonl", none) > 0;
  };
  while (!has_step()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("a second run into the same folder is refused while the first one writes there") {
  const TinyJob job;
  Process process(job.train("shared", {"--max_steps", "100000", "--save_steps", "100000"}));
  while (!fs::exists(job.output("shared") / "metrics.jsonl")) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Finished second = run_spillway(job.train("shared", {"--max_steps", "1"}));
  CHECK(second.status == 2);
  CHECK(second.err.find("got one that another run is writing to") != std::string::npos);
}

TEST_CASE("a full model in the folder of an adapter leaves none of its files") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("model", {"--max_steps", "1"})).status == 0);
  REQUIRE(fs::exists(job.output("model") / "adapter_config.json"));
  const Finished full = run_spillway(job.train("model", {"--max_steps", "1", "--adapter", "none"}));
  CAPTURE(full.err);
  REQUIRE(full.status == 0);
  CHECK(fs::exists(job.output("model") / "model.safetensors"));
  CHECK_FALSE(fs::exists(job.output("model") / "adapter_config.json"));
  CHECK_FALSE(fs::exists(job.output("model") / "adapter_model.safetensors"));
}

TEST_CASE("a LoRA of video in the folder of a whole transformer leaves nothing of that, nor the other way round") {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "out", config = folder.path() / "video.yml";
  write_file(config, fmt::format("base_model: {0}\ndatasets:\n  - path: {0}/clips\n    type: video_latents\n"
                                 "learning_rate: 1e-4\nmax_steps: 1\ntext_len: 6\noutput_dir: {1}\n",
                                 video_golden("t2v").string(), output.string()));
  const auto train = [&](const std::vector<std::string>& keys) {
    const Finished finished = run_spillway(std::vector<std::string>{"train", config.string()} + keys);
    CAPTURE(finished.err);
    REQUIRE(finished.status == 0);
  };
  const auto has = [&](const char* name) { return fs::exists(output / name); };
  const std::vector<std::string> lora = {"--adapter", "lora", "--lora_r", "2"};
  train({"--use_ema", "true"});
  CHECK((has("transformer") && has("transformer_ema") && !has("pytorch_lora_weights.safetensors")));
  train(lora + std::vector<std::string>{"--use_ema", "true"});
  CHECK((!has("transformer") && !has("transformer_ema") && has("pytorch_lora_weights_ema.safetensors")));
  train({});
  CHECK((has("transformer") && !has("transformer_ema") && !has("pytorch_lora_weights.safetensors")));
  CHECK_FALSE(has("pytorch_lora_weights_ema.safetensors"));
}

TEST_CASE("an adapter in the folder of a full model leaves none of its files, and all of a run's in a folder below") {
  const TinyJob job;
  const fs::path output = job.output("model"), below = output / "below";
  REQUIRE(run_spillway(job.train("below", {"--max_steps", "1", "--output_dir", below.string()})).status == 0);
  REQUIRE(run_spillway(job.train("model", {"--max_steps", "1", "--adapter", "none"})).status == 0);
  REQUIRE(fs::exists(output / "config.json"));
  write_file(output / "notes.txt", "mine");
  const Finished adapter = run_spillway(job.train("model", {"--max_steps", "1"}));
  CAPTURE(adapter.err);
  REQUIRE(adapter.status == 0);
  CHECK(fs::exists(output / "adapter_model.safetensors"));
  CHECK_FALSE(fs::exists(output / "config.json"));
  CHECK_FALSE(fs::exists(output / "model.safetensors"));
  CHECK(read_file(output / "notes.txt", 100) == "mine");
  CHECK(fs::exists(below / "adapter_config.json"));
  CHECK(fs::exists(below / "adapter_model.safetensors"));
}

TEST_CASE("a streamed run goes on from any checkpoint to the same bits, over the ends of blocks and data") {
  const TinyJob job;
  for (const std::string packing : {"false", "true"}) {
    CAPTURE(packing);
    const std::vector<std::string> stream = {
        "--streaming",        "true", "--streaming_multipack_buffer_size", "7", "--sample_packing", packing,
        "--save_total_limit", "40"};
    const Finished whole = run_spillway(job.train("whole" + packing, stream));
    CAPTURE(whole.err);
    REQUIRE(whole.status == 0);
    for (const char* step : {"3", "12", "36"}) {
      CAPTURE(step);
      std::vector<std::string> more = stream;
      const fs::path checkpoint = job.output("whole" + packing) / ("checkpoint-" + std::string(step));
      more.insert(more.end(), {"--resume_from_checkpoint", checkpoint.string()});
      const Finished resumed = run_spillway(job.train("resumed" + packing, more));
      CAPTURE(resumed.err);
      REQUIRE(resumed.status == 0);
      CHECK(job.adapter("resumed" + packing) == job.adapter("whole" + packing));
    }
  }
  const Finished others = run_spillway(
      job.train("x", {"--streaming", "true", "--streaming_multipack_buffer_size", "8", "--sample_packing", "true",
                      "--resume_from_checkpoint", (job.output("wholetrue") / "checkpoint-3").string()}));
  CHECK(others.status == 2);
  CHECK(others.err.find("expected the stream options that wrote it, got others") != std::string::npos);
  const Finished prepared =
      run_spillway(job.train("x", {"--resume_from_checkpoint", (job.output("wholetrue") / "checkpoint-3").string()}));
  CHECK(prepared.status == 2);
  CHECK(prepared.err.find("expected a run that prepares its rows") != std::string::npos);
}

TEST_CASE("preprocess writes the lines that the steps of a stream take") {
  const TinyJob job;
  std::vector<std::string> args = job.train("lines", {"--streaming", "true", "--max_steps", "3", "--json"});
  args[0] = "preprocess";
  const Finished done = run_spillway(args);
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  const nlohmann::json summary = nlohmann::json::parse(done.out);
  CHECK(summary["rows"] == 12);  // 3 steps of 2 micro-batches of 2
  CHECK(summary["lines"] == 12);
  const std::string lines = read_file(job.output("lines") / "preprocessed/train.jsonl", 1 << 20);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 12);
}

TEST_CASE("a broken row of a stream leaves a checkpoint, from which the run goes on once the row is correct") {
  const TinyJob job;
  const std::vector<std::string> stream = {
      "--streaming",  "true", "--streaming_multipack_buffer_size", "4", "--sample_packing", "true", "--max_steps", "8",
      "--save_steps", "100"};
  const std::string rows = job.rows();
  job.write_rows(rows + "{\"input_ids\": \"x\"}\n" + rows);
  const Finished broken = run_spillway(job.train("run", stream));
  CAPTURE(broken.err);
  CHECK(broken.status == 2);
  CHECK(broken.err.find("rows.jsonl:25") != std::string::npos);
  CHECK(job.losses("run").size() > 2);
  job.write_rows(rows + rows.substr(0, rows.find('\n') + 1) + rows);
  std::vector<std::string> more = stream;
  more.insert(more.end(), kResumeArgs.begin(), kResumeArgs.end());
  REQUIRE(run_spillway(job.train("run", more)).status == 0);
  REQUIRE(run_spillway(job.train("whole", stream)).status == 0);
  CHECK(job.adapter("run") == job.adapter("whole"));
}

TEST_CASE("the same config gives the same bytes, whatever is recomputed and however many checkpoints are written") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("a")).status == 0);
  REQUIRE(run_spillway(job.train("b", {"--gradient_checkpointing", "true", "--save_steps", "100000"})).status == 0);
  CHECK(job.adapter("a") == job.adapter("b"));
  CHECK(job.losses("a") == job.losses("b"));
}

TEST_CASE("the last step has a checkpoint, too, where steps or epochs say when there is one") {
  const TinyJob job;
  const auto saved = [&](const std::string& name, const std::vector<std::string>& more) {
    const Finished run = run_spillway(job.train(name, more));
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return checkpoints_in(job.output(name));
  };
  const std::set<std::string> expected = {"checkpoint-3", "checkpoint-5"};
  CHECK(saved("steps", {"--max_steps", "5", "--val_set_size", "8", "--eval_steps", "2"}) == expected);
  // A longer run goes on from it as if it had never ended there.
  CHECK(saved("steps", {"--max_steps", "7", "--val_set_size", "8", "--eval_steps", "2", "--lr_scheduler", "constant",
                        "--auto_resume_from_checkpoints", "true"})
            .contains("checkpoint-7"));
  CHECK(saved("none", {"--max_steps", "2", "--save_steps", "100000"}) == std::set<std::string>{"checkpoint-2"});
  CHECK(saved("first", {"--max_steps", "2", "--save_steps", "100000", "--save_first_step", "true"}) ==
        std::set<std::string>{"checkpoint-1", "checkpoint-2"});
}

TEST_CASE("what an earlier run left in the folder is never taken for this run's, nor counted, nor removed") {
  const TinyJob job;
  const std::vector<std::string> second = {"--learning_rate", "0.02",   "--max_steps",    "100000",
                                           "--save_steps",    "100000", "--lr_scheduler", "constant_with_warmup"};
  REQUIRE(run_spillway(job.train("out", {"--save_total_limit", "40"})).status == 0);
  const std::set<std::string> before = checkpoints_in(job.output("out"));
  REQUIRE(before.size() == 14);  // the last step, 40, has one, too  // 3, 6, ..., 39
  fs::remove(job.output("out") / "metrics.jsonl");
  Process process(job.train("out", second));
  wait_for_step(job.output("out"));
  process.signal(SIGINT);
  const Finished interrupted = process.wait();
  CAPTURE(interrupted.err);
  REQUIRE(interrupted.status == 130);
  CHECK(interrupted.err.find("of an earlier run, and not counted as this run's: checkpoint-3 to checkpoint-40") !=
        std::string::npos);
  const auto steps = static_cast<int>(job.losses("out").size());
  const std::string own = "checkpoint-" + std::to_string(steps);
  CHECK(fs::exists(job.output("out") / own));
  const std::vector<std::string> longer = {"--max_steps", std::to_string(steps + 4), "--save_steps", "1"};
  const Finished resumed = run_spillway(job.train("out", second + longer + kResumeArgs));
  CAPTURE(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(resumed.err.find("going on from " + (job.output("out") / own).string() + " (step") != std::string::npos);
  REQUIRE(run_spillway(job.train("whole", second + longer)).status == 0);
  CHECK(job.adapter("out") == job.adapter("whole"));
  CHECK(job.losses("out") == job.losses("whole"));
  // Two of its own (save_total_limit), and all of the earlier run but those whose names it took.
  std::set<std::string> expected = before;
  for (int step = steps; step <= steps + 4; ++step) expected.erase("checkpoint-" + std::to_string(step));
  for (int step = steps + 3; step <= steps + 4; ++step) expected.insert("checkpoint-" + std::to_string(step));
  CHECK(checkpoints_in(job.output("out")) == expected);
}

TEST_CASE("a run that goes on from a checkpoint of the user's choice leaves the later ones behind") {
  const TinyJob job;
  const std::vector<std::string> all = {"--save_total_limit", "40"};
  REQUIRE(run_spillway(job.train("out", all)).status == 0);
  const std::string from = (job.output("out") / "checkpoint-6").string();
  fs::remove(job.output("out") / "metrics.jsonl");
  Process process(
      job.train("out", {"--resume_from_checkpoint", from, "--max_steps", "100000", "--save_steps", "1000"}));
  wait_for_step(job.output("out"));
  process.signal(SIGKILL);
  REQUIRE(process.wait().status == 128 + SIGKILL);
  const Finished resumed = run_spillway(job.train("out", kResumeArgs + all));
  CAPTURE(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(resumed.err.find("going on from " + from + " (step 6 of 40)") != std::string::npos);
}

TEST_CASE("a checkpoint at the last step becomes the model, and one beyond it is refused") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("out", {"--max_steps", "9"})).status == 0);
  const std::string model = job.adapter("out");
  fs::remove(job.output("out") / "adapter_model.safetensors");
  const Finished done = run_spillway(job.train("out", kResumeArgs + std::vector<std::string>{"--max_steps", "9"}));
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(done.err.find("checkpoint-9 is at the last of 9 steps: nothing is left to train") != std::string::npos);
  CHECK(job.adapter("out") == model);
  const Finished beyond = run_spillway(job.train("out", kResumeArgs + std::vector<std::string>{"--max_steps", "6"}));
  CHECK(beyond.status == 2);
  CHECK(beyond.err.find("[max_steps] expected at least the 9 steps that ") != std::string::npos);
  CHECK(beyond.err.find("got a run of 6; ") != std::string::npos);
}

TEST_CASE("a run that is over and is started again keeps the report of its steps") {
  const TinyJob job;
  const std::vector<std::string> short_run = {"--max_steps", "9"};
  REQUIRE(run_spillway(job.train("out", short_run)).status == 0);
  const fs::path folder = job.output("out");
  const std::string report = read_file(folder / "report.json", kMiB), page = read_file(folder / "report.html", kMiB);
  const Finished again = run_spillway(job.train("out", kResumeArgs + short_run));
  CAPTURE(again.err);
  REQUIRE(again.status == 0);
  CHECK(read_file(folder / "report.json", kMiB) == report);
  CHECK(read_file(folder / "report.html", kMiB) == page);
  CHECK(again.err.find(" planned, ") == std::string::npos);  // the line of what training took of each tier
  fs::remove(folder / "report.json");
  REQUIRE(run_spillway(job.train("out", kResumeArgs + short_run)).status == 0);
  CHECK(fs::exists(folder / "report.json"));
}

TEST_CASE("checkpoints beyond the limit that a killed process left are gone when the run is over") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("out", {"--save_total_limit", "40"})).status == 0);
  REQUIRE(checkpoints_in(job.output("out")).size() == 14);  // the last step, 40, has one, too
  REQUIRE(run_spillway(job.train("out", kResumeArgs)).status == 0);
  CHECK(checkpoints_in(job.output("out")) == std::set<std::string>{"checkpoint-39", "checkpoint-40"});
}

TEST_CASE("a template that shows the date shows that of the run's first start, and a new run its own") {
  const TinyJob job;
  const fs::path rows = job.output("chats.jsonl");
  std::string lines;
  for (int row = 0; row < 8; ++row)
    lines += R"({"messages": [{"role": "user", "content": "w1"}, {"role": "assistant", "content": "w2 w3"}]})"
             "\n";
  write_file(rows, lines);
  const fs::path template_file = job.output("dated.jinja");
  write_file(template_file,
             "w{{ strftime_now('%d') }} {% for m in messages %}{% if m.role == 'user' %}{{ m.content }} {% else %}{{ "
             "m.content }} {% endif %}{% endfor %}");
  const std::vector<std::string> chat = {
      "--datasets.0.path",     rows.string(),          "--datasets.0.type", "chat_template",
      "--chat_template_jinja", template_file.string(), "--train_on_inputs", "true"};
  // Zones that are 26 hours apart never have the same date.
  const auto train = [&](const char* zone, const std::string& name, const std::vector<std::string>& more) {
    setenv("TZ", zone, 1);
    const Finished run = run_spillway(job.train(name, chat + more));
    unsetenv("TZ");
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
  };
  const std::vector<std::string> constant = {"--lr_scheduler", "constant", "--warmup_steps", "0", "--max_steps"};
  train("AAA+12", "whole", constant + std::vector<std::string>{"6"});
  train("AAA+12", "out", constant + std::vector<std::string>{"3"});
  train("BBB-14", "out", constant + std::vector<std::string>{"6"} + kResumeArgs);
  train("BBB-14", "again", constant + std::vector<std::string>{"6"});
  CHECK(job.adapter("out") == job.adapter("whole"));
  CHECK(job.adapter("again") != job.adapter("whole"));
}

TEST_CASE("an old checkpoint that cannot be removed is left there, with a warning") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "6"})).status == 0);
  // It gets another name on its way, and this one cannot be longer.
  const fs::path long_name = job.output("run") / ("checkpoint-" + std::string(240, '0') + "3");
  fs::rename(job.output("run") / "checkpoint-3", long_name);
  const Finished done = run_spillway(job.train("run", {"--max_steps", "9", "--auto_resume_from_checkpoints", "true"}));
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(fs::exists(long_name));
  CHECK(fs::exists(job.output("run") / "checkpoint-9"));
  CHECK(done.err.find("; the run goes on") != std::string::npos);
}
