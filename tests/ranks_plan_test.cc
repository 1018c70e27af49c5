// Plans of jobs over several ranks on machines that are not here.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;

// A model without weights, as plans need none, and a config that trains all of it.
class PlannedModel {
 public:
  explicit PlannedModel(int layers = 2) {
    fs::create_directory(folder_.path() / "model");
    write_file(folder_.path() / "model/config.json",
               fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
      "hidden_size": 256, "intermediate_size": 1024, "max_position_embeddings": 64, "num_attention_heads": 2,
      "num_hidden_layers": {}, "num_key_value_heads": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
      "tie_word_embeddings": false, "vocab_size": 1024, "torch_dtype": "bfloat16"}})",
                           layers));
    write_file(config(), fmt::format("base_model: {}/model\ndatasets: [{{path: {}/rows.jsonl, type: alpaca}}]\nbf16: "
                                     "true\nsequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: "
                                     "8\nlearning_rate: 1e-4\noutput_dir: {}/out\n",
                                     folder_.path().string(), folder_.path().string(), folder_.path().string()));
  }
  [[nodiscard]] std::string config() const { return (folder_.path() / "job.yml").string(); }
  [[nodiscard]] fs::path folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

nlohmann::json plan_of(const PlannedModel& model, const Arguments& more, int status = 0) {
  const Finished finished = run_spillway(Arguments{"plan", model.config(), "--json"} + more);
  CAPTURE(finished.err);
  REQUIRE(finished.status == status);
  return nlohmann::json::parse(finished.out);
}

int64_t planned_device_peak(const nlohmann::json& plan) { return plan["tiers"]["device"]["peak_bytes"]; }

}  // namespace

TEST_CASE("a cluster that is not here is planned rank by rank") {
  const PlannedModel model(12);
  const auto planned = [&](const std::string& ranks, const std::string& stage) {
    return plan_of(model, {"--ranks", ranks, "--gpu", "8xh100-80gb", "--zero_stage", stage});
  };
  const nlohmann::json of_host = planned("8", "3"), of_two = planned("16", "3"), of_many = planned("1000", "3");
  CHECK(of_many["world_size"] == 1000);
  REQUIRE(of_many["ranks"].size() == 1);  // they are all alike
  const nlohmann::json& rank = of_many["ranks"][0];
  CHECK(rank["ranks"] == nlohmann::json({0, 999}));
  CHECK(rank["process_bytes"] > 1 << 20);
  CHECK(rank["sent_bytes_per_step"] > 0);
  // Bytes that cross between hosts take longer than those that stay on one.
  CHECK(of_two["step_seconds"] > of_host["step_seconds"]);
  // A rank holds its part alone.
  const auto held = [](const nlohmann::json& plan) -> int64_t {
    return plan["ranks"][0]["holds"]["device"]["trainable_weight"];
  };
  CHECK(held(of_two) < 0.6 * static_cast<double>(held(of_host)));
  CHECK(held(of_host) < 0.2 * static_cast<double>(held(planned("8", "2"))));
}

TEST_CASE("the plan of a cluster says what sums by host would save, or what they do") {
  const PlannedModel model(4);
  const std::string file = (model.folder() / "hosts.json").string();
  nlohmann::json host =
      nlohmann::json::parse(read_file(fs::path(SPILLWAY_SOURCE_DIR) / "machines/8xh100-80gb.json", int64_t{1} << 20));
  host["peer_latency_seconds"] = 0;
  host["peer_between_hosts_bytes_per_second"] = 1e8;  // so that little crosses slowly
  write_file(file, host.dump());
  const Arguments two_hosts = {"--ranks", "16", "--machine", file, "--zero_stage", "2"};
  const nlohmann::json ordered = plan_of(model, two_hosts),
                       by_host = plan_of(model, two_hosts + Arguments{"--gradient_reduction", "by_host"});
  const nlohmann::json &before = ordered["gradient_reduction"], &after = by_host["gradient_reduction"];
  CHECK(before["is"] == "ordered");
  CHECK(after["is"] == "by_host");
  const auto bytes = [](const nlohmann::json& one) { return one["between_hosts_bytes_per_step"].get<double>(); };
  // A rank sends 8 of 16 parts to the other host, or one of the two that it adds up for the ranks of its own.
  CHECK(bytes(before["by_host"]) == doctest::Approx(bytes(before["ordered"]) / 8).epsilon(0.2));
  CHECK(bytes(after["by_host"]) == bytes(before["by_host"]));
  // The forecast is what the other plan then says of itself.
  CHECK(before["by_host"]["step_seconds"].get<double>() ==
        doctest::Approx(by_host["step_seconds"].get<double>()).epsilon(0.02));
  CHECK(by_host["step_seconds"] < ordered["step_seconds"]);
  CHECK(plan_of(model, {"--ranks", "8", "--gpu", "8xh100-80gb"})["gradient_reduction"].is_null());
}

TEST_CASE("a machine that does not say how fast ranks exchange is an error that names what is missing") {
  const PlannedModel model;
  const auto error_of = [&](const Arguments& more) {
    const Finished finished = run_spillway(Arguments{"plan", model.config()} + more);
    CHECK(finished.status == 2);
    return finished.err;
  };
  CHECK(error_of({"--ranks", "2", "--gpu", "h100-80gb"})
            .find("[--gpu h100-80gb] expected 'peer_between_hosts_bytes_per_second' above zero for 2 ranks on hosts "
                  "of 1, got none") != std::string::npos);
  const std::string file = (model.folder() / "host.json").string();
  nlohmann::json host =
      nlohmann::json::parse(read_file(fs::path(SPILLWAY_SOURCE_DIR) / "machines/2xrtx4090.json", int64_t{1} << 20));
  host["link_bytes_per_second"]["peer"] = 0;
  write_file(file, host.dump());
  CHECK(error_of({"--ranks", "2", "--machine", file})
            .find(fmt::format("[{}] expected 'link_bytes_per_second.peer' above zero for 2 ranks on a host", file)) !=
        std::string::npos);
}

TEST_CASE("a job that does not fit is offered more ranks, with the same rows in a step") {
  const PlannedModel model;
  const Arguments cluster = {"--gpu", "8xh100-80gb", "--memory.disk", "0", "--memory.host", "0"};
  const int64_t of_eight = planned_device_peak(
      plan_of(model, cluster + Arguments{"--ranks", "8", "--zero_stage", "3", "--gradient_checkpointing", "true",
                                         "--gradient_accumulation_steps", "2"}));
  const Arguments small = cluster + Arguments{"--memory.device", std::to_string(of_eight)};
  for (const char* ranks : {"1", "2"}) {
    const nlohmann::json plan = plan_of(model, small + Arguments{"--ranks", ranks}, 2);
    CHECK(plan["fits"] == false);
    bool is_offered = false;
    for (const nlohmann::json& change : plan["nearest"]) {
      const auto text = change["change"].get<std::string>();
      CAPTURE(text);
      if (text.find("num_processes: ") == std::string::npos) continue;
      is_offered = true;
      CHECK_FALSE(change.contains("trains"));
      CHECK(change["device_bytes"] <= of_eight);
    }
    CHECK(is_offered);
  }
}
