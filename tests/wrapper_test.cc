// Text models inside larger ones: their numbers against transformers, torch and peft (tests/golden/wrappers, made by
// tools/make_wrapper_goldens.py), and what the real program leaves of the towers around them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/storages/quantised.h"
#include "tests/support/model_parity.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kWrapped = kGoldenModels / "../wrappers";
const std::vector<std::string> kWrappedModels = {"../wrappers/gemma3", "../wrappers/mistral3", "../wrappers/llava",
                                                 "../wrappers/gemma4", "../wrappers/mistral4"};

bool is_of_text(std::string_view name) {
  return name.find("language_model") != std::string_view::npos || name.starts_with("lm_head");
}

std::string bytes_of(const SafetensorsFolder& folder, const StoredTensor& tensor) {
  std::string bytes(static_cast<size_t>(tensor.bytes), '\0');
  folder.read_bytes(tensor.name, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// By name: what a folder holds beside its text model.
std::map<std::string, std::string> towers_of(const fs::path& model) {
  const SafetensorsFolder folder(model);
  std::map<std::string, std::string> result;
  for (const auto& [name, entry] : folder.tensors()) {
    if (!is_of_text(name))
      result[name] = entry.tensor->dtype_name + entry.tensor->shape_text() + bytes_of(folder, *entry.tensor);
  }
  return result;
}

std::set<std::string> names_in(const fs::path& model) {
  std::set<std::string> names;
  const SafetensorsFolder folder(model);
  for (const auto& [name, entry] : folder.tensors()) names.insert(name);
  return names;
}

// A golden model whose towers hold what nothing here computes with, and no numbers.
fs::path odd_model(const std::string& golden, const fs::path& to) {
  fs::create_directories(to);
  fs::copy(kWrapped / golden / "config.json", to);
  write_file(to / "preprocessor_config.json", "{\"size\": 8}\n");
  const SafetensorsFolder folder(kWrapped / golden);
  std::vector<TensorSpec> specs;
  for (const auto& [name, entry] : folder.tensors())
    specs.push_back({name, *entry.tensor->dtype(), entry.tensor->shape});
  specs.push_back(
      {.name = "vision_tower.doubles", .dtype = DType::kU8, .shape = {3}, .foreign_dtype = "F64", .foreign_bytes = 24});
  specs.push_back({"vision_tower.position_ids", DType::kI64, {1, 2}});
  specs.push_back({"vision_tower.not_numbers", DType::kF32, {2}});
  SafetensorsFolderWriter writer(to, specs);
  for (const auto& [name, entry] : folder.tensors()) {
    const std::string bytes = bytes_of(folder, *entry.tensor);
    writer.append(name, bytes.data(), *entry.tensor->dtype(), entry.tensor->elems());
  }
  const std::string content = "0123456789abcdefghijklmn", not_numbers(8, '\xff');
  writer.append("vision_tower.doubles", content.data(), DType::kU8, 24);
  writer.append("vision_tower.position_ids", content.data(), DType::kI64, 2);
  writer.append("vision_tower.not_numbers", not_numbers.data(), DType::kF32, 2);
  writer.commit();
  return to;
}

Finished train_beside(const TinyJob& job, const std::string& name, const fs::path& base,
                      std::vector<std::string> more) {
  more.insert(more.end(), {"--base_model", base.string(), "--max_steps", "4"});
  Finished finished = run_spillway(job.train(name, more));
  CAPTURE(finished.err);
  CAPTURE(finished.out);
  REQUIRE(finished.status == 0);
  return finished;
}

}  // namespace

TEST_CASE("text inside a larger model is computed and trained as transformers and peft do it") {
  for (const std::string& model : kWrappedModels) {
    CAPTURE(model);
    check_gradients(model, {});
    check_curve(model, {});
    check_gradients(model, {.adapter = "adapter"});
    check_curve(model, {.adapter = "adapter"});
    check_bf16_curve(model, {.adapter = "adapter"});
  }
}

TEST_CASE("a full run carries the towers over byte by byte, through tiers and a resumption, and says so") {
  for (const char* golden : {"gemma3", "mistral3", "llava", "gemma4", "mistral4"}) {
    CAPTURE(golden);
    const TinyJob job;
    const fs::path base = odd_model(golden, job.output("base"));
    const std::vector<std::string> full = {"--adapter", "none", "--save_steps", "2"};
    const Finished plain = train_beside(job, "plain", base, full);
    CHECK((plain.out + plain.err).find("not read, and left as it is: ") != std::string::npos);
    CHECK((plain.out + plain.err).find("vision_tower") != std::string::npos);
    const fs::path out = job.output("plain");
    CHECK(towers_of(out) == towers_of(base));
    CHECK(names_in(out) == names_in(base));
    CHECK(towers_of(out / "checkpoint-2") == towers_of(base));
    CHECK(read_file(out / "config.json", 1 << 20) == read_file(base / "config.json", 1 << 20));
    CHECK(read_file(out / "preprocessor_config.json", 1 << 10) == "{\"size\": 8}\n");

    std::vector<std::string> tiers = full;
    tiers.insert(tiers.end(), {"--parameter_offload", "disk", "--optimizer_offload", "disk"});
    (void)train_beside(job, "tiers", base, tiers);
    CHECK(read_file(job.output("tiers") / "model.safetensors", 1 << 24) ==
          read_file(out / "model.safetensors", 1 << 24));
    fs::remove_all(out / "checkpoint-4");
    std::vector<std::string> resumed = full;
    resumed.insert(resumed.end(), TinyJob::kResume.begin(), TinyJob::kResume.end());
    const std::string whole = read_file(out / "model.safetensors", 1 << 24);
    (void)train_beside(job, "plain", base, resumed);
    CHECK(read_file(out / "model.safetensors", 1 << 24) == whole);
  }
}

TEST_CASE("an adapter of the text alone is trained, also beside NF4, and merged between untouched towers") {
  const TinyJob job;
  const fs::path base = odd_model("llava", job.output("base"));
  for (const char* four_bits : {"false", "true"}) {
    const std::string name = fmt::format("lora_{}", four_bits);
    (void)train_beside(job, name, base, {"--load_in_4bit", four_bits});
    const SafetensorsFile factors(job.output(name) / "adapter_model.safetensors");
    CHECK(factors.tensors().size() == 2 * 7 * 2);
    for (const StoredTensor& tensor : factors.tensors())
      CHECK(tensor.name.starts_with("base_model.model.model.language_model.layers."));
    const fs::path merged = job.output(name + "_merged");
    const Finished merging =
        run_spillway({"merge", base.string(), "--adapter", job.output(name).string(), "--out", merged.string()});
    CAPTURE(merging.err);
    REQUIRE(merging.status == 0);
    CHECK(towers_of(merged) == towers_of(base));
    CHECK(names_in(merged) == names_in(base));
    CHECK(read_file(merged / "config.json", 1 << 20) == read_file(base / "config.json", 1 << 20));
    CHECK(fs::exists(merged / "preprocessor_config.json"));
  }
}

TEST_CASE("what has no place for towers refuses a wrapper by its name") {
  const TemporaryFolder folder;
  const Finished refused =
      run_spillway({"quantize", (kWrapped / "llava").string(), "--out", (folder.path() / "four").string()});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("expected a model of text that stands alone, got LlavaForConditionalGeneration") !=
        std::string::npos);
}

TEST_CASE("overrides of config.json are trained with, written, and the same when a run goes on") {
  const TinyJob job;
  const fs::path base = job.output("base");
  fs::copy(kGoldenModels / "llama2", base);
  auto config = read_json(base / "config.json");
  config["attention_dropout"] = 0.1;
  write_file(base / "config.json", config.dump());
  const std::vector<std::string> arguments = {"--adapter",    "none",        "--save_steps", "2",
                                              "--base_model", base.string(), "--max_steps",  "4"};
  const Finished refused = run_spillway(job.train("out", arguments));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("write overrides_of_model_config: {attention_dropout: 0}") != std::string::npos);

  const auto with = [&](const std::string& overrides, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = job.train("out", arguments);
    words.insert(words.end(), more.begin(), more.end());
    write_file(words[1], read_file(words[1], 1 << 20) + overrides + "\n");
    return run_spillway(words);
  };
  const std::string once = "overrides_of_model_config: {attention_dropout: 0, rope_theta: 500}";
  REQUIRE(with(once).status == 0);
  const auto written = read_json(job.output("out") / "config.json");
  CHECK(written["attention_dropout"] == 0);
  CHECK(written["rope_theta"] == 500);
  const Finished other = with("model_config: {attention_dropout: 0}", TinyJob::kResume);
  CHECK(other.status == 2);
  CHECK(other.err.find("[overrides_of_model_config] expected ") != std::string::npos);
  // In another order they are the same.
  CHECK(with("model_config: {rope_theta: 500, attention_dropout: 0}", TinyJob::kResume).status == 0);
  const Finished shape = with("overrides_of_model_config: 3");
  CHECK(shape.status == 2);
  CHECK(shape.err.find("overrides_of_model_config] expected a mapping") != std::string::npos);
}
