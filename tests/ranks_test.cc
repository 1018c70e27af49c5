// Whole jobs over several ranks, threads of this process: the files are those of one rank with the same global batch,
// to the last byte.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cli/cmd_train.h"
#include "dist/testing/local_peers.h"
#include "io/file.h"
#include "tests/support/captured.h"
#include "tests/support/process.h"
#include "tests/support/rank_jobs.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

TEST_CASE("LoRA with dropout, evaluation and a smaller last step has the bits of one rank on 2 and 4") {
  const TinyJob job;
  check_on_ranks(job, {"--save_steps", "2", "--save_total_limit", "9", "--eval_batch_size", "1"}, {2, 4});
}

TEST_CASE("full fine-tuning has the bits of one rank, with tied and untied embeddings") {
  for (const char* model : {"qwen3_tied", "llama2"}) {
    CAPTURE(std::string(model));
    const TinyJob job;
    check_on_ranks(job, kFullWeights + of_model(model), {2});
  }
}

TEST_CASE("feed-forward parts in tiles have the bits of one rank where ranks have parts of all weights") {
  const TinyJob job;
  check_on_ranks(
      job, kFullWeights + Arguments{"--tiled_mlp", "true", "--tiled_mlp_num_shards", "2", "--zero_stage", "3"}, {2});
}

TEST_CASE("layers that share keys have the bits of one rank where ranks have parts of all weights") {
  const TinyJob job;
  check_on_ranks(job, kFullWeights + of_model("gemma4_e2b") + Arguments{"--zero_stage", "3"}, {2});
}

TEST_CASE("every stage of ZeRO has the bits of one rank, and a rank holds a part of what is split") {
  const WideModel model;
  const auto plan_of = [](const TinyJob& job, const std::string& name) {
    return nlohmann::json::parse(read_file(job.output(name) / "plan.json", 1 << 24));
  };
  const auto held = [&](const TinyJob& job, const std::string& name, const char* kind) {
    return plan_of(job, name)["ranks"][0]["holds"]["device"][kind].get<int64_t>();
  };
  const Arguments full = {"--adapter", "none"};
  for (const Arguments& kind : {full, Arguments{"--adapter", "qlora", "--load_in_4bit", "true"},
                                full + Arguments{"--optimizer_offload", "host", "--gradient_offload", "disk"}}) {
    CAPTURE(kind.back());
    const TinyJob job;
    const Arguments shared = model.arguments() + kind + Arguments{"--learning_rate", "0.001"};
    CHECK(train_over_ranks(1, job, "one", shared).empty());
    for (const char* stage : {"0", "2", "3"}) {  // 1 is 2
      if (kind != full && stage < std::string_view("3")) continue;
      CAPTURE(std::string(stage));
      const std::string name = std::string("stage_") + stage;
      for (const std::string& error : train_over_ranks(2, job, name, shared + Arguments{"--zero_stage", stage}))
        CHECK(error == "");
      check_same_results(job.output("one"), job.output(name));
    }
    if (kind != full) continue;
    // Two groups of two ranks hold what two ranks do.
    for (const std::string& error :
         train_over_ranks(4, job, "hybrid", shared + Arguments{"--zero_stage", "3", "--dp_shard_size", "2"}))
      CHECK(error == "");
    check_same_results(job.output("one"), job.output("hybrid"));
    CHECK(plan_of(job, "hybrid")["dp_shard_size"] == 2);
    CHECK(held(job, "hybrid", "optimizer_state") == held(job, "stage_3", "optimizer_state"));
    CHECK(held(job, "stage_2", "optimizer_state") < 0.7 * held(job, "stage_0", "optimizer_state"));
    CHECK(held(job, "stage_3", "trainable_weight") < 0.7 * held(job, "stage_2", "trainable_weight"));
    const nlohmann::json report = nlohmann::json::parse(read_file(job.output("stage_3") / "report.json", 1 << 24));
    CHECK(report["zero_stage"] == 3);
    for (const nlohmann::json& rank : report["ranks"]) {
      const nlohmann::json& device = rank["tiers"]["device"];
      CHECK(device["measured_peak_bytes"] == device["planned_peak_bytes"]);
    }
  }
}

TEST_CASE("sums by host have the bits of as many ranks a host, at every stage, and cross less") {
  const WideModel model;
  const TinyJob job;
  const Arguments shared = model.arguments() + kFullWeights;
  const auto train = [&](const std::string& name, const std::vector<std::string>& hosts, const Arguments& more) {
    for (const std::string& error : train_over_ranks(4, job, name, shared + more, hosts)) CHECK(error == "");
    return nlohmann::json::parse(read_file(job.output(name) / "plan.json", 1 << 24));
  };
  const Arguments by_host = {"--gradient_reduction", "by_host"};
  const std::vector<std::string> two_by_two = {"a", "a", "b", "b"};
  const nlohmann::json ordered = train("ordered", two_by_two, {}), first = train("first", two_by_two, by_host);
  for (const nlohmann::json& plan : {ordered, first}) {
    const nlohmann::json& both = plan["gradient_reduction"];
    // A rank sends one of four parts to the other host, where it sent two; tensors with fewer parts, less.
    CHECK(both["by_host"]["between_hosts_bytes_per_step"].get<double>() <
          0.6 * both["ordered"]["between_hosts_bytes_per_step"].get<double>());
  }
  CHECK(first["gradient_reduction"]["is"] == "by_host");
  int number = 0;
  for (const Arguments& more : {Arguments{"--zero_stage", "0"},
                                {"--zero_stage", "3"},
                                {"--zero_stage", "3", "--dp_shard_size", "2"},
                                kLayerByLayer}) {
    const std::string name = "other_" + std::to_string(number++);
    CAPTURE(name);
    (void)train(name, {"c", "c", "d", "d"}, by_host + more);
    check_same_results(job.output("first"), job.output(name));
  }
  // On one host nothing crosses, and all is in order.
  CHECK(train("one_host", {}, by_host)["gradient_reduction"].is_null());
  check_same_results(job.output("ordered"), job.output("one_host"));
  CHECK(results_of(job.output("ordered")) != results_of(job.output("first")));
  const auto metrics = training_metrics_of(job.output("ordered")), other = training_metrics_of(job.output("first"));
  REQUIRE(metrics.size() == other.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (!metrics[i].contains("grad_norm")) continue;
    CHECK(other[i]["loss"].get<double>() == doctest::Approx(metrics[i]["loss"].get<double>()).epsilon(1e-5));
    CHECK(other[i]["grad_norm"].get<double>() == doctest::Approx(metrics[i]["grad_norm"].get<double>()).epsilon(1e-4));
  }
}

TEST_CASE("ranks that take their micro-batches layer by layer have the bits of one rank, at every stage") {
  const WideModel model;
  const Arguments full = {"--adapter", "none"}, gathered = {"--zero_stage", "3"};
  const Arguments kinds[] = {{"--adapter", "lora", "--zero_stage", "0"},
                             {"--adapter", "lora", "--zero_stage", "3", "--layer_offloading", "host"},
                             full + Arguments{"--zero_stage", "2"},
                             full + gathered + Arguments{"--gradient_checkpointing", "true"},
                             full + gathered + Arguments{"--optimizer_offload", "host", "--gradient_offload", "disk"}};
  for (const Arguments& kind : kinds) {
    CAPTURE(fmt::format("{}", fmt::join(kind, " ")));
    const TinyJob job;
    const Arguments shared = model.arguments() + kind + Arguments{"--learning_rate", "0.001"};
    CHECK(train_over_ranks(1, job, "one", shared).empty());
    for (const std::string& error : train_over_ranks(2, job, "two", shared + kLayerByLayer)) CHECK(error == "");
    check_same_results(job.output("one"), job.output("two"));
    const nlohmann::json plan = nlohmann::json::parse(read_file(job.output("two") / "plan.json", 1 << 24));
    CHECK(plan["micro_batch_group"] == 2);
  }
}

TEST_CASE("a run of parts goes on from whole states, and whole states from parts") {
  const WideModel model;
  const TinyJob job;
  const Arguments keep = model.arguments() + kFullWeights + Arguments{"--save_steps", "3", "--save_total_limit", "9"};
  const auto from = [&](const char* name) {
    return keep + Arguments{"--resume_from_checkpoint", (job.output(name) / "checkpoint-3").string()};
  };
  CHECK(train_over_ranks(1, job, "one", keep).empty());
  for (const std::string& error : train_over_ranks(2, job, "parts", keep)) CHECK(error == "");
  for (const std::string& error : train_over_ranks(4, job, "later_parts", from("one"))) CHECK(error == "");
  CHECK(train_over_ranks(1, job, "later_one", from("parts")).empty());
  for (const char* name : {"parts", "later_parts", "later_one"}) {
    CAPTURE(std::string(name));
    CHECK(read_file(job.output(name) / "model.safetensors", 1 << 24) ==
          read_file(job.output("one") / "model.safetensors", 1 << 24));
  }
}

TEST_CASE("packed rows have the bits of one rank") {
  const TinyJob job;
  check_on_ranks(job, {"--sample_packing", "true", "--sequence_len", "24", "--max_steps", "3"}, {2});
}

TEST_CASE("a run goes on from a checkpoint on another number of ranks") {
  const TinyJob job;
  const Arguments keep = {"--save_steps", "3", "--save_total_limit", "9"};
  CHECK(train_over_ranks(1, job, "one", keep).empty());
  for (const std::string& error : train_over_ranks(2, job, "two", keep)) CHECK(error == "");
  for (const std::string& error : train_over_ranks(
           4, job, "four", keep + Arguments{"--resume_from_checkpoint", (job.output("two") / "checkpoint-3").string()}))
    CHECK(error == "");
  CHECK(job.adapter("four") == job.adapter("one"));
  for (const std::string& error :
       train_over_ranks(2, job, "again",
                        keep + Arguments{"--resume_from_checkpoint", (job.output("one") / "checkpoint-3").string()}))
    CHECK(error == "");
  CHECK(job.adapter("again") == job.adapter("one"));
}

TEST_CASE("a rank with other rows, and one whose config is wrong, end all ranks with one message") {
  const TinyJob job, other;
  other.write_rows(other.rows().substr(other.rows().find('\n') + 1));
  const Arguments mine = job.train("run", {"--max_steps", "1"}),
                  theirs = other.train("run", {"--max_steps", "1", "--output_dir", job.output("run").string()});
  const auto errors_of = [&](const Arguments& first, const Arguments& second) {
    std::vector<std::string> errors;
    (void)capture([&] {
      errors = run_ranks(2, [&](Peers& peers) {
        const auto arguments = training_arguments(std::span(peers.rank() == 0 ? first : second).subspan(1));
        throw InputError("status " + std::to_string(train_as_rank(*arguments, &peers)));
      });
      return 0;
    });
    return errors;
  };
  const std::vector<std::string> rows = errors_of(mine, theirs);
  CAPTURE(rows[0]);
  CHECK(rows[0].find("[rank 1 on ") == 0);
  CHECK(rows[0].find("datasets] expected 24 rows") != std::string::npos);
  CHECK(rows[1] == "status 2");
  const std::vector<std::string> key = errors_of(mine, mine + Arguments{"--learning_rate", "0"});
  CAPTURE(key[0]);
  CHECK(key[0].find("[rank 1 on ") == 0);
  CHECK(key[1] == "status 2");
  CHECK_FALSE(fs::exists(job.output("run")));
  const WideModel wide;
  for (const auto& [what, changed] : {std::pair{"seed", Arguments{"--seed", "8"}}, {"base_model", wide.arguments()}}) {
    CAPTURE(std::string(what));
    const std::vector<std::string> differs = errors_of(mine, mine + changed);
    CAPTURE(differs[0]);
    CHECK(differs[0].find("[rank 1 on ") == 0);
    CHECK(differs[0].find(what) != std::string::npos);
    CHECK(differs[1] == "status 2");
  }
}

TEST_CASE("zero_stage auto splits weights, too, where a rank's memory is too small for them") {
  const WideModel model;
  const TinyJob job;
  const Arguments shared = model.arguments() + kFullWeights;
  const Arguments on_two = shared + Arguments{"--gradient_accumulation_steps", "2", "--ranks", "2"};
  // The least that a rank's plan takes where it splits so much, with its share of the CPUs.
  const auto least = [&](const char* stage) {
    Arguments plan = job.train(
        "least", on_two + Arguments{"--zero_stage", stage, "--memory.device", "1", "--memory.disk", "0", "--json"});
    plan[0] = "plan";
    return nlohmann::json::parse(run_spillway(plan).out)["tiers"]["device"]["peak_bytes"].get<int64_t>();
  };
  const int64_t of_states = least("2"), of_all = least("3");
  REQUIRE(of_all < of_states);
  const std::string budget = std::to_string((of_all + of_states) / 2);
  for (const auto& [name, more] :
       {std::pair{"roomy", Arguments()}, {"small", {"--memory.device", budget, "--memory.disk", "0"}}}) {
    const Finished run = run_spillway(job.train(name, on_two + more));
    INFO(run.err);
    REQUIRE(run.status == 0);
    const nlohmann::json report = nlohmann::json::parse(read_file(job.output(name) / "report.json", 1 << 24));
    CHECK(report["zero_stage"] == (more.empty() ? 2 : 3));
  }
  check_same_results(job.output("roomy"), job.output("small"));
}

TEST_CASE("the program trains on two ranks under mpirun, and a signal to one rank stops both") {
  const TinyJob job;
  const WideModel model;
  const Arguments shared = model.arguments() + Arguments{"--max_steps", "6", "--val_set_size", "2"};
  CHECK(run_spillway(job.train("one", shared + Arguments{"--gradient_accumulation_steps", "4"})).status == 0);
  const Finished run = run_spillway(job.train("two", shared + Arguments{"--ranks", "2", "--zero_stage", "3"}));
  INFO(run.err);
  CHECK(run.status == 0);
  check_same_results(job.output("one"), job.output("two"));

  // Each rank generates for some prompts, while weights come from both for each token position.
  const Arguments online = model.arguments() + of_prompts(job, "grpo", {1, 0, 0.5, 0, 0, 1, 1, 0}) +
                           Arguments{"--trl.num_generations", "2", "--max_steps", "3"};
  CHECK(run_spillway(job.train("one_online", online + Arguments{"--gradient_accumulation_steps", "4"})).status == 0);
  const Finished two = run_spillway(job.train(
      "two_online", online + Arguments{"--ranks", "2", "--zero_stage", "3", "--ds3_gather_for_generation", "false"}));
  INFO(two.err);
  CHECK(two.status == 0);
  check_same_results(job.output("one_online"), job.output("two_online"));

  Process stopped(job.train("stopped", {"--ranks", "2", "--max_steps", "100000", "--save_steps", "50000"}));
  const fs::path metrics = job.output("stopped") / "metrics.jsonl";
  while (!fs::exists(metrics) || fs::file_size(metrics) == 0)  // the first step is done
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stopped.signal(SIGINT);
  const Finished ended = stopped.wait();
  INFO(ended.err);
  CHECK(ended.status == 130);
  int checkpoints = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(job.output("stopped")))
    checkpoints += entry.path().filename().string().starts_with("checkpoint-");
  CHECK(checkpoints == 1);
}
