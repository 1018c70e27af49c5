#include "cli/cmd_plan_fit.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "cli/commands.h"
#include "config/load.h"
#include "io/file.h"
#include "job/fit/catalogue.h"
#include "job/fit/fit.h"
#include "model/model.h"
#include "tests/support/captured.h"
#include "tests/support/source_folder.h"

using namespace spillway;

namespace {

Captured run_fit(std::vector<std::string> args) {
  return capture([&] { return run_command_line(args); });
}

int64_t parameter_count(const Model& model) {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters_of(model, {.train_base = true})) {
    if (parameter.is_of_model()) sum += parameter.shape.elems();
  }
  return sum;
}

// The config of a full training of SmolLM2-135M whose gradients and states are on disk.
Captured planned(std::string_view budget, std::string_view accumulation) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "c.yml").string();
  std::ofstream(path) << "base_model: m\nlearning_rate: 1e-5\ndatasets: [{path: x.jsonl, type: chat_template}]\n"
                         "sequence_len: 2048\nsample_packing: true\nmicro_batch_size: 1\nbf16: true\n"
                         "gradient_offload: disk\noptimizer_offload: disk\nmemory: {disk: 80%}\n";
  return run_fit({"plan", path, "--model", "smollm2-135m", "--gpu", "rtx3060-12gb", "--json", "--memory.device",
                  std::string(budget), "--gradient_accumulation_steps", std::string(accumulation)});
}

}  // namespace

TEST_CASE("models that are known by name have as many parameters as their makers' files") {
  // As the hub counts them in the files.
  std::map<std::string, int64_t> published = {
      {"gemma-7b", 8'537'680'896},           {"gemma-2b", 2'506'172'416},        {"command-r7b", 8'028'033'024},
      {"seed-oss-36b", 36'151'104'512},      {"olmo-2-13b", 13'716'198'400},     {"olmo-2-7b", 7'298'617'344},
      {"olmo-2-1b", 1'484'916'736},          {"smollm3-3b", 3'075'098'624},      {"granite-3.3-8b", 8'170'864'640},
      {"granite-3.3-2b", 2'533'539'840},     {"gemma-2-27b", 27'227'128'320},    {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},         {"gemma-3-1b", 999'885'952},        {"gemma-3-270m", 268'098'176},
      {"phi-3-medium-4k", 13'960'238'080},   {"phi-3-mini-4k", 3'821'079'552},   {"phi-4", 14'659'507'200},
      {"phi-3.5-mini", 3'821'079'552},       {"phi-4-mini", 3'836'021'760},      {"glm-4-9b-0414", 9'400'279'040},
      {"glm-4-32b-0414", 32'566'081'536},    {"llama-2-13b", 13'015'864'320},    {"llama-2-70b", 68'976'648'192},
      {"llama-2-7b", 6'738'415'616},         {"llama-3-8b", 8'030'261'248},      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-8b", 8'030'261'248},       {"llama-3.2-1b", 1'235'814'400},    {"llama-3.2-3b", 3'212'749'824},
      {"mistral-7b-v0.1", 7'241'732'096},    {"mistral-7b-v0.3", 7'248'023'552}, {"mistral-nemo-12b", 12'247'782'400},
      {"mistral-small-24b", 23'572'403'200}, {"qwen2.5-0.5b", 494'032'768},      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-14b", 14'770'033'664},       {"qwen2.5-32b", 32'763'876'352},    {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-72b", 72'706'203'648},       {"qwen2.5-7b", 7'615'616'512},      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},         {"qwen3-14b", 14'768'307'200},      {"qwen3-32b", 32'762'123'264},
      {"qwen3-4b", 4'022'468'096},           {"qwen3-8b", 8'190'735'360},        {"smollm2-1.7b", 1'711'376'384},
      {"smollm2-135m", 134'515'008},         {"smollm2-360m", 361'821'120},      {"tinyllama-1.1b", 1'100'048'384}};
  // As transformers 5.24 makes them, with the buffers that files hold, and without layers that predict several tokens.
  const std::map<std::string, int64_t> mixtures_and_states = {
      {"mixtral-8x7b", 46'702'792'704},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"qwen3-next-80b-a3b", 79'674'391'296},
      {"olmoe-1b-7b", 6'919'161'856},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
      {"deepseek-v2-lite", 15'706'484'224},
      {"glm-4.7-flash", 29'943'390'976 + int64_t{46} * 64},
      {"glm-4.5-air", 106'852'245'504 + int64_t{45} * 128},
      {"trinity-mini", 26'123'974'400},
      {"granite-4.0-h-micro", 3'191'396'096},
      {"granite-4.0-h-tiny", 6'939'037'248},
      {"granite-4.0-h-small", 32'207'337'984},
      {"nemotron-nano-9b-v2", 8'888'227'328},
      {"nemotron-3-nano-30b-a3b", 31'577'937'344 + int64_t{23} * 128},
      {"lfm2-1.2b", 1'170'340'608},
      {"lfm2-8b-a1b", 8'339'929'856 + int64_t{22} * 32}};
  published.insert(mixtures_and_states.begin(), mixtures_and_states.end());
  // Published parameter counts of Wan models, in billions.
  const std::map<std::string, double> rounded = {{"wan2.1-t2v-1.3b", 1.419},
                                                 {"wan2.1-t2v-14b", 14.29},
                                                 {"wan2.1-i2v-14b", 16.4},
                                                 {"wan2.2-ti2v-5b", 5.0},
                                                 {"wan2.2-t2v-a14b", 14.29}};
  std::optional<TemporaryFolder> room;
  for (const std::string& name : model_names()) {
    CAPTURE(name);
    const int64_t count = parameter_count(*read_model(named_model(name, room, "--model").folder));
    if (rounded.contains(name)) {
      CHECK(static_cast<double>(count) * 1e-9 == doctest::Approx(rounded.at(name)).epsilon(5e-3));
    } else {
      REQUIRE(published.contains(name));
      CHECK(count == published.at(name));
    }
  }
  CHECK(model_names().size() == published.size() + rounded.size());
}

TEST_CASE("the page about what fits says how many models and machines are known by name") {
  const std::string page = read_file(testing::source_folder() / "docs/will-it-fit.md", 1 << 20);
  CHECK(page.find(fmt::format("`config.json` of {} models", model_names().size())) != std::string::npos);
  CHECK(page.find(fmt::format("{} GPUs and computers", machine_names().size())) != std::string::npos);
}

TEST_CASE("every machine that is known by name has memory, rates and a disk") {
  const std::vector<std::string> names = machine_names();
  CHECK(names.size() >= 20);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Machine machine = machine_by_name(name, "--gpu");
    CHECK(nth(machine.capacity_bytes, Tier::kDevice) > int64_t{5} << 30);
    CHECK(nth(machine.capacity_bytes, Tier::kDisk) > 0);
    CHECK(machine.matrix_flops_bf16 >= machine.matrix_flops_f32);
    CHECK(nth(machine.link_bytes_per_second, Lane::kDiskRead) > 1e9);
  }
}

TEST_CASE("a model is known by its name on the hub, and a card by what it is called") {
  std::optional<TemporaryFolder> room;
  const auto named = [&](const char* name) { return named_model(name, room, "--model"); };
  const NamedModel chat = named("meta-llama/Llama-3.1-8B-Instruct"), base = named("llama-3.1-8b");
  CHECK(chat.folder == base.folder);
  CHECK(chat.name == "meta-llama/Llama-3.1-8B-Instruct");  // what a config of it is to say
  CHECK(named("Qwen3-8B").name == "Qwen/Qwen3-8B");
  CHECK(machine_by_name("RTX 4090", "--gpu").name == machine_by_name("rtx4090", "--gpu").name);
  CHECK_THROWS_WITH_AS(
      (void)machine_by_name("a100", "--gpu"),
      "[--gpu] expected a machine's name, got 'a100', which may be a100-40gb or a100-80gb; name one of "
      "them",
      InputError);
  CHECK_THROWS_WITH_AS((void)machine_by_name("Tesla T4", "--gpu"),
                       doctest::Contains("expected a GPU that Spillway runs on, got t4-16gb: NVIDIA T4 has compute "
                                         "capability 7.5 and no bf16"),
                       InputError);
  for (const char* mac : {"m4-16gb", "mac", "m4", "M3 Max", "Apple Max", "Apple M2", "mac-m1-ultra-64gb"}) {
    CAPTURE(mac);
    CHECK_THROWS_WITH_AS(
        (void)machine_by_name(mac, "--gpu"),
        doctest::Contains(
            "Apple's GPUs do not run it: there is no build for macOS, and kernels are built for NVIDIA's"),
        InputError);
  }
  for (const char* variant : {"pro", "Max", "ULTRA", "ti", "GB"}) {
    CAPTURE(variant);
    CHECK_THROWS_WITH_AS((void)machine_by_name(variant, "--gpu"), doctest::Contains("expected the name of a machine"),
                         InputError);
  }
  CHECK_THROWS_WITH_AS((void)machine_by_name("v100", "--gpu"),
                       doctest::Contains("expected a GPU that Spillway runs on, got v100: NVIDIA V100"), InputError);
  CHECK_THROWS_WITH_AS((void)named("someone/unknown-8b"), doctest::Contains("`spillway fetch someone/unknown-8b`"),
                       InputError);
}

TEST_CASE("a name that is no model's or machine's is answered with those that are near") {
  CHECK(run_fit({"plan", "--model", "lama-3-8b"})
            .err.find("[--model] expected the name of a model, got 'lama-3-8b'; did "
                      "you mean llama-3-8b?") != std::string::npos);
  CHECK(run_fit({"plan", "--model", "lama-3-8b"}).err.find("Or name a folder, or one of ") != std::string::npos);
  CHECK(run_fit({"plan", "--model", "llama-2"}).err.find("with which llama-2-13b, llama-2-70b, llama-2-7b begin") !=
        std::string::npos);
  CHECK(run_fit({"plan", "--model", "qwen3-4", "--gpu", "rtx9"}).err.find("[--gpu] expected the name of a machine") !=
        std::string::npos);
  CHECK(run_fit({"plan", "--model", "qwen3-4b", "--method", "dora"}).err ==
        "[--method] expected lora, qlora or full, got 'dora'; name one of them\n");
  CHECK(run_fit({"plan", "c.yml", "--write", "d.yml"}).err ==
        "[--write] expected --model without a config beside it, got 'c.yml'; remove one\n");
  CHECK(run_fit({"plan", "--model", "qwen3-4b", "--write", "none/c.yml"}).err ==
        "[--write] expected a file in a folder that exists, got 'none/c.yml'; create the folder\n");
  CHECK(run_fit({"plan", "--model", "qwen3-4b", "--html", "r.html"}).err.find("[--html] expected a config") == 0);
}

TEST_CASE("of plans as fast as the fastest, the one that takes least host memory and disk is called that") {
  const auto row = [](double tokens_per_second, int64_t host, int64_t disk) {
    return FitRow{.fits = true, .tokens_per_second = tokens_per_second, .peak_bytes = {1, host, disk}};
  };
  const std::vector<FitRow> rows = {row(990, 5, 2), row(1000, 4, 4), row(995, 8, 0), row(991, 4, 2), row(980, 0, 0)};
  CHECK(fastest(rows) == &rows[3]);
  CHECK(fastest(std::span(rows).first(1)) == &rows[0]);
  CHECK(fastest(std::vector<FitRow>{FitRow{}}) == nullptr);
}

TEST_CASE("what fits is shown by method and budget, and the fastest config is one that plan takes") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "fit.yml").string();
  const std::vector<std::string> question = {"plan", "--model",        "smollm2-135m", "--gpu",   "rtx3060", "--method",
                                             "lora", "--sequence_len", "512",          "--write", file,      "--json"};
  const Captured fit = run_fit(question);
  CAPTURE(fit.err);
  REQUIRE(fit.status == 0);
  const auto answer = nlohmann::json::parse(fit.out);
  REQUIRE(answer["rows"].size() == 4);
  double last = 1e30;
  for (const auto& row : answer["rows"]) {
    CHECK(row["fits"] == true);
    CHECK(row["tiers"]["device"]["peak_bytes"] <= row["tiers"]["device"]["budget_bytes"]);
    CHECK(row["tokens_per_second"] <= last);
    last = row["tokens_per_second"];
  }
  CHECK(answer["fastest"] == answer["rows"][0]);
  const config::LoadedConfig written = config::load_config_file(file, {}, config::ConfigUse::kTrain);
  CHECK(written.config.model.base_model == "HuggingFaceTB/SmolLM2-135M");
  CHECK(written.config.batches.micro_batch_size == answer["fastest"]["micro_batch_size"]);
  CHECK(written.config.batches.sequence_len == 512);
  const Captured again = run_fit(question);
  CHECK(again.status == 2);
  CHECK(again.err.find("[--write] expected a file that is not there yet") == 0);
}

TEST_CASE("of a video transformer, clips are planned, and its config is one of clips") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "fit.yml").string();
  const Captured fit = run_fit({"plan", "--model", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "--gpu", "h100-80gb", "--method",
                                "lora", "--clip_shape", "[16, 1, 60, 104]", "--write", file});
  CAPTURE(fit.err);
  CHECK(fit.status == 0);
  CHECK(fit.out.find("patches/s") != std::string::npos);
  CHECK(fit.out.find("wan2.1-t2v-1.3b · LoRA r=32, all linear · 1 x 1560 patches") != std::string::npos);
  const config::LoadedConfig written = config::load_config_file(file, {}, config::ConfigUse::kTrain);
  CHECK(written.config.model.base_model == "Wan-AI/Wan2.1-T2V-1.3B-Diffusers");
  CHECK(written.config.video.clip_shape == std::array<int64_t, 4>{16, 1, 60, 104});
  CHECK(run_fit({"plan", "--model", "wan2.2-ti2v-5b", "--gpu", "rtx4090", "--method", "qlora"}).err ==
        "[--method] expected lora or full, got 'qlora'; name one of them\n");
}

TEST_CASE("gradients that accumulate on disk come to the device one block after the other, not all at once") {
  // All gradients are 513 MiB, of which the embedding's are 108.
  const Captured plan = planned("450MiB", "4");
  CAPTURE(plan.err);
  CHECK(plan.status == 0);
  CHECK(nlohmann::json::parse(plan.out)["fits"] == true);
}

TEST_CASE("a plan is found where only transfers that run less far ahead and other activations fit together") {
  const Captured plan = planned("365MiB", "1");
  CAPTURE(plan.err);
  CHECK(plan.status == 0);
  CHECK(nlohmann::json::parse(plan.out)["fits"] == true);
}
