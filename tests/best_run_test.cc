// The best checkpoint, early ends and event files of whole runs of the real program.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

// A learning rate at which the tiny job soon gets worse on rows that it does not train on.
const std::vector<std::string> kOverfits = {
    "--val_set_size", "8",        "--eval_steps",       "2", "--save_steps", "4", "--learning_rate", "0.05",
    "--lr_scheduler", "constant", "--save_total_limit", "1", "--max_steps",  "24"};

std::set<int> checkpoints(const fs::path& output) {
  std::set<int> steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("checkpoint-")) steps.insert(std::stoi(name.substr(11)));
  }
  return steps;
}

std::vector<nlohmann::json> metrics_of(const fs::path& output) {
  std::vector<nlohmann::json> lines;
  const std::string text = read_file(output / "metrics.jsonl", 1 << 24);
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    lines.push_back(nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin)));
  return lines;
}

// eval_loss by step.
std::map<int, double> evaluations(const fs::path& output) {
  std::map<int, double> result;
  for (const nlohmann::json& line : metrics_of(output))
    if (line.contains("eval_loss")) result.emplace(line["step"], line["eval_loss"]);
  return result;
}

int last_step(const fs::path& output) {
  int last = 0;
  for (const nlohmann::json& line : metrics_of(output)) last = std::max(last, line["step"].get<int>());
  return last;
}

// Returns the best of the steps that are multiples of `every`, or the last.
int best_step(const std::map<int, double>& evaluations, int every) {
  int best = 0;
  for (const auto& [step, loss] : evaluations) {
    const bool counts = step % every == 0 || step == evaluations.rbegin()->first;
    if (counts && (best == 0 || loss < evaluations.at(best))) best = step;
  }
  return best;
}

}  // namespace

TEST_CASE("a run ends with the weights of the best checkpoint, which save_total_limit spares") {
  const TinyJob job;
  const Finished plain =
      run_spillway(job.train("plain", kOverfits + std::vector<std::string>{"--save_total_limit", "40"}));
  CAPTURE(plain.err);
  REQUIRE(plain.status == 0);
  const int best = best_step(evaluations(job.output("plain")), 4);
  REQUIRE(best < 24);  // or the test says nothing
  const std::string kept =
      read_file(job.output("plain") / fmt::format("checkpoint-{}/adapter_model.safetensors", best), 1 << 24);

  const Finished done =
      run_spillway(job.train("best", kOverfits + std::vector<std::string>{"--load_best_model_at_end", "true"}));
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  CHECK(job.losses("best") == job.losses("plain"));
  CHECK(job.adapter("best") == kept);
  CHECK(checkpoints(job.output("best")) == std::set<int>{best, 24});
  CHECK(done.err.find(fmt::format("the weights are those of step {}", best)) != std::string::npos);
  const std::string card = read_file(job.output("best") / "README.md", 1 << 20);
  CHECK(card.find(fmt::format("| eval_loss, after step {} |", best)) != std::string::npos);
  // The last evaluation is that of the weights which are kept, to the bit what it was when they were those of the run.
  const nlohmann::json last = metrics_of(job.output("best")).back();
  CHECK(last.at("step") == 24);
  CHECK(last.at("weights_step") == best);
  CHECK(last.at("eval_loss") == evaluations(job.output("plain")).at(best));
  CHECK(done.err.find(fmt::format("the weights that are kept, of step {}: eval_loss ", best)) != std::string::npos);
  const nlohmann::json report = nlohmann::json::parse(read_file(job.output("best") / "report.json", 1 << 24));
  CHECK(report.at("weights_of_step") == best);
  CHECK(report.at("final_evaluation").at("eval_loss") == last.at("eval_loss"));
  CHECK(report.at("eval_loss").back()[0] == 24);
  // If a run keeps its last weights, the final evaluation is that of the last step.
  const nlohmann::json usual = nlohmann::json::parse(read_file(job.output("plain") / "report.json", 1 << 24));
  CHECK(usual.at("weights_of_step") == 24);
  CHECK(usual.at("final_evaluation").at("eval_loss") == evaluations(job.output("plain")).at(24));
  CHECK_FALSE(metrics_of(job.output("plain")).back().contains("weights_step"));
  CHECK(card.find(fmt::format("| weights | of step {} |", best)) != std::string::npos);
}

TEST_CASE("a run that goes on in another folder ends with the best checkpoint of the one that it comes from") {
  const TinyJob job;
  const std::vector<std::string> best = kOverfits + std::vector<std::string>{"--load_best_model_at_end", "true"};
  const Finished whole = run_spillway(job.train("whole", best + std::vector<std::string>{"--save_total_limit", "40"}));
  CAPTURE(whole.err);
  REQUIRE(whole.status == 0);
  const std::string from = (job.output("whole") / "checkpoint-20").string();
  const Finished more =
      run_spillway(job.train("more", best + std::vector<std::string>{"--resume_from_checkpoint", from}));
  CAPTURE(more.err);
  REQUIRE(more.status == 0);
  REQUIRE(best_step(evaluations(job.output("whole")), 4) <= 20);  // or the test says nothing
  CAPTURE(whole.err);
  CHECK(job.adapter("more") == job.adapter("whole"));
}

TEST_CASE("checkpoints of models alone give the best weights back, and no run goes on from one") {
  const TinyJob job;
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    const Finished done =
        run_spillway(job.train(name, kOverfits + std::vector<std::string>{"--load_best_model_at_end", "true"} + more));
    CAPTURE(done.err);
    REQUIRE(done.status == 0);
    return done.err;
  };
  (void)run("whole", {});
  (void)run("models", {"--save_only_model", "true"});
  CHECK(job.losses("models") == job.losses("whole"));
  CHECK(job.adapter("models") == job.adapter("whole"));
  CHECK(checkpoints(job.output("models")) == checkpoints(job.output("whole")));
  const fs::path last = job.output("models") / "checkpoint-24";
  CHECK(fs::exists(last / "adapter_model.safetensors"));
  CHECK_FALSE(fs::exists(last / "spillway_state.safetensors"));
  const Finished refused = run_spillway(job.train("more", {"--resume_from_checkpoint", last.string()}));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("expected a checkpoint to go on from, got a model alone (save_only_model)") !=
        std::string::npos);
  const Finished again =
      run_spillway(job.train("models", {"--max_steps", "1", "--auto_resume_from_checkpoints", "true"}));
  CHECK(again.status == 0);
  CHECK(again.err.find("are models alone (save_only_model): the run begins anew") != std::string::npos);
}

TEST_CASE("a run ends early where transformers' would, and so does one that goes on from a checkpoint") {
  const TinyJob job;
  const std::vector<std::string> patient =
      kOverfits + std::vector<std::string>{"--early_stopping_patience", "3", "--save_steps", "2"};
  const Finished whole = run_spillway(job.train("whole", patient));
  CAPTURE(whole.err);
  REQUIRE(whole.status == 0);
  // By the definition, over the evaluations as they were reported.
  double best = INFINITY;
  int without = 0, end = 0, best_at = 0;
  for (const auto& [step, loss] : evaluations(job.output("whole"))) {
    without = loss < best ? 0 : without + 1;
    if (loss < best) best_at = step;
    best = std::min(best, loss);
    end = step;
    if (without == 3) break;
  }
  REQUIRE(without == 3);
  CHECK(last_step(job.output("whole")) == end);
  CHECK(whole.err.find("early_stopping_patience: 3 evaluations in a row") != std::string::npos);
  CHECK(checkpoints(job.output("whole")) == std::set<int>{best_at, end});

  REQUIRE(run_spillway(job.train("parts", patient + std::vector<std::string>{"--max_steps", std::to_string(end - 3)}))
              .status == 0);
  const std::vector<std::string> resume = patient + std::vector<std::string>{"--auto_resume_from_checkpoints", "true"};
  const Finished parts = run_spillway(job.train("parts", resume));
  CAPTURE(parts.err);
  REQUIRE(parts.status == 0);
  CHECK(last_step(job.output("parts")) == end);
  CHECK(job.adapter("parts") == job.adapter("whole"));
  // Once more, from where it ended: nothing is trained, the result is the same.
  REQUIRE(run_spillway(job.train("parts", resume)).status == 0);
  CHECK(last_step(job.output("parts")) == end);
  CHECK(job.adapter("parts") == job.adapter("whole"));
}

TEST_CASE("a last step between two evaluations is compared with the best, again where a run goes on from it") {
  const TinyJob job;
  const std::vector<std::string> args = {"--val_set_size",
                                         "8",
                                         "--eval_steps",
                                         "2",
                                         "--save_steps",
                                         "2",
                                         "--max_steps",
                                         "5",
                                         "--lr_scheduler",
                                         "constant",
                                         "--load_best_model_at_end",
                                         "true",
                                         "--auto_resume_from_checkpoints",
                                         "true"};
  std::string adapter;
  for (int time = 0; time < 2; ++time) {
    const Finished run = run_spillway(job.train("run", args));
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    const std::map<int, double> losses = evaluations(job.output("run"));
    REQUIRE(losses.at(5) < losses.at(4));
    CHECK(checkpoints(job.output("run")) == std::set<int>{4, 5});
    if (time > 0) CHECK(job.adapter("run") == adapter);
    adapter = job.adapter("run");
  }
}

TEST_CASE("a longer run leaves the evaluations that it would have had at once, and none of the end before") {
  const TinyJob job;
  const std::vector<std::string> args = {
      "--val_set_size",           "8",    "--eval_steps",   "2",        "--save_steps",       "2",
      "--learning_rate",          "0.05", "--lr_scheduler", "constant", "--save_total_limit", "40",
      "--load_best_model_at_end", "true", "--max_steps"};
  const auto train = [&](const std::string& name, const char* steps, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = args;
    all.emplace_back(steps);
    all.insert(all.end(), more.begin(), more.end());
    const Finished run = run_spillway(job.train(name, all));
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
  };
  // Returns the step and the kind of each line, in the order of the file.
  const auto lines = [&](const std::string& name) {
    std::vector<std::string> result;
    for (const nlohmann::json& line : metrics_of(job.output(name)))
      result.push_back(fmt::format("{}{}{}", line.at("step").get<int>(), line.contains("eval_loss") ? " evaluated" : "",
                                   line.contains("weights_step") ? " as kept" : ""));
    return result;
  };
  train("whole", "24");
  // The last step of the first is one between two evaluations, of the second one of them, after the best.
  for (const char* end : {"5", "18"}) {
    CAPTURE(end);
    train("parts", end);
    const std::vector<std::string> ended = lines("parts");
    REQUIRE(ended.back().find(end) == 0);
    train("parts", end, TinyJob::kResume);
    CHECK(lines("parts") == ended);
    train("parts", "24", TinyJob::kResume);
    CHECK(lines("parts") == lines("whole"));
  }
  REQUIRE(lines("whole").back() == "24 evaluated as kept");  // or the test says little
}

TEST_CASE("save_strategy best writes a checkpoint after each evaluation that is the best so far") {
  const TinyJob job;
  std::vector<std::string> args =
      job.train("run", {"--val_set_size", "8", "--eval_steps", "2", "--learning_rate", "0.05", "--lr_scheduler",
                        "constant", "--save_total_limit", "40", "--max_steps", "24", "--save_strategy", "best",
                        "--load_best_model_at_end", "true"});
  std::string config = read_file(args[1], 1 << 16);
  config.erase(config.find("save_steps: 3\n"), std::string_view("save_steps: 3\n").size());
  write_file(args[1], config);
  const Finished done = run_spillway(args);
  CAPTURE(done.err);
  REQUIRE(done.status == 0);
  std::set<int> expected;
  double best = INFINITY;
  for (const auto& [step, loss] : evaluations(job.output("run"))) {
    if (loss < best) expected.insert(step);
    best = std::min(best, loss);
  }
  CHECK(checkpoints(job.output("run")) == expected);
  CHECK(job.adapter("run") ==
        read_file(job.output("run") / fmt::format("checkpoint-{}/adapter_model.safetensors", *expected.rbegin()),
                  1 << 24));
}

TEST_CASE("a loss that stays high ends a run, which leaves its model") {
  const TinyJob job;
  const Finished done =
      run_spillway(job.train("high", {"--loss_watchdog_threshold", "0.1", "--loss_watchdog_patience", "4"}));
  CAPTURE(done.err);
  CHECK(done.status == 0);
  CHECK(last_step(job.output("high")) == 4);
  CHECK(done.err.find("loss_watchdog_threshold: the loss of 4 steps in a row was above 0.1") != std::string::npos);
  CHECK_FALSE(job.adapter("high").empty());
}

TEST_CASE("a best evaluation that cannot be is refused before anything is written") {
  const TinyJob job;
  const auto refused = [&](const std::vector<std::string>& more, std::string_view message) {
    const Finished done = run_spillway(job.train("x", more));
    CAPTURE(done.err);
    CHECK(done.status == 2);
    CHECK(done.err.find(message) != std::string::npos);
    CHECK_FALSE(fs::exists(job.output("x") / "metrics.jsonl"));
  };
  refused({"--early_stopping_patience", "2"}, "[--early_stopping_patience] expected rows to evaluate on, got none");
  refused({"--val_set_size", "8", "--eval_steps", "2", "--load_best_model_at_end", "true"},
          "expected checkpoints at steps of an evaluation");
  refused(
      {"--val_set_size", "8", "--eval_steps", "3", "--metric_for_best_model", "eval_perplexitty"},
      "[metric_for_best_model] expected one of the evaluation's numbers (loss, perplexity or mean_token_accuracy), got "
      "'perplexitty'; did you mean perplexity?");
}

TEST_CASE("a run writes its numbers into an event file, and a run that goes on into another of the same folder") {
  const TinyJob job;
  const std::vector<std::string> events = {"--use_tensorboard", "true", "--val_set_size", "8",
                                           "--eval_steps",      "3",    "--max_steps"};
  REQUIRE(run_spillway(job.train("run", events + std::vector<std::string>{"6"})).status == 0);
  REQUIRE(
      run_spillway(job.train("run", events + std::vector<std::string>{"9", "--auto_resume_from_checkpoints", "true"}))
          .status == 0);
  std::set<fs::path> folders;
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(job.output("run") / "runs")) {
    if (!entry.is_regular_file()) continue;
    folders.insert(entry.path().parent_path());
    files.push_back(read_file(entry.path(), 1 << 20));
    CHECK(entry.path().filename().string().starts_with("events.out.tfevents."));
  }
  CHECK(folders.size() == 1);
  REQUIRE(files.size() == 2);
  for (const std::string& file : files)
    for (const char* tag : {"train/loss", "train/learning_rate", "train/grad_norm", "train/epoch", "eval/loss"})
      CHECK(file.find(tag) != std::string::npos);
}

TEST_CASE("a README that no run wrote stays") {
  const TinyJob job;
  REQUIRE(run_spillway(job.train("run", {"--max_steps", "3"})).status == 0);
  const fs::path card = job.output("run") / "README.md";
  const std::string text = read_file(card, 1 << 20);
  CHECK(text.starts_with("---\nbase_model: "));
  for (const char* part :
       {"library_name: peft\n", "pipeline_tag: text-generation\n", "- spillway\n- sft\n- lora\n---\n",
        "| steps | 3 of 3 |", "| tokens trained on |", "| loss of the last step |", "| tier | peak as planned",
        "| `learning_rate` | 0.01 |", "AutoPeftModelForCausalLM", "spillway chat "})
    CHECK(text.find(part) != std::string::npos);
  // As a run that was killed leaves the folder, where it may write over what is its own.
  nlohmann::json record = nlohmann::json::parse(read_file(job.output("run") / ".spillway.json", 1 << 20));
  record["complete"] = false;
  write_file(card, "mine\n");
  write_file(job.output("run") / ".spillway.json", record.dump());
  const Finished again = run_spillway(job.train("run", {"--max_steps", "3"}));
  CAPTURE(again.err);
  CHECK(read_file(card, 1 << 20) == "mine\n");
}

TEST_CASE("a best checkpoint that is damaged leaves a run with its last weights, and a warning") {
  const TinyJob job;
  const std::vector<std::string> args = kOverfits + std::vector<std::string>{"--metric_for_best_model", "loss"};
  REQUIRE(run_spillway(job.train("run", args)).status == 0);
  const int best = best_step(evaluations(job.output("run")), 4);
  REQUIRE(best < 24);  // or the test says nothing
  const std::string last = job.adapter("run");
  const fs::path checkpoint = job.output("run") / fmt::format("checkpoint-{}", best);
  for (const char* file : {"adapter_model.safetensors", "spillway_state.safetensors"}) {
    CAPTURE(std::string(file));
    const std::string whole = read_file(checkpoint / file, 1 << 24);
    std::string damaged = whole;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    for (const bool is_there : {true, false}) {
      is_there ? write_file(checkpoint / file, damaged) : void(fs::remove(checkpoint / file));
      const Finished done =
          run_spillway(job.train("run", args + std::vector<std::string>{"--load_best_model_at_end", "true",
                                                                        "--auto_resume_from_checkpoints", "true"}));
      CAPTURE(done.err);
      CHECK(done.status == 0);
      CHECK(job.adapter("run") == last);
      CHECK(done.err.find("the last weights stay") != std::string::npos);
    }
    write_file(checkpoint / file, whole);
  }
}
