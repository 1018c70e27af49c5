// Everything a user hands over, broken in turn, against the real program: exit status 2, one line that says what to do,
// nothing written.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/golden_models.h"
#include "tests/support/process.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 24;

// A job that works: model/, rows.jsonl, adapter/, config.yml, with out/ to come.
class Job {
 public:
  Job() {
    fs::copy(kGoldenModels / "llama2", model());
    fs::copy(kGoldenModels / "llama2/adapter", path("adapter"));
    json tokenizer = {{"version", "1.0"}, {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}};
    tokenizer["model"] = {{"type", "WordLevel"}, {"unk_token", "w0"}};
    for (int id = 0; id < 96; ++id) tokenizer["model"]["vocab"]["w" + std::to_string(id)] = id;
    write_file(model() / "tokenizer.json", tokenizer.dump());
    write_file(path("rows.jsonl"), R"({"input_ids": [1, 2, 3, 4]})"
                                   "\n");
    config = {{"base_model", model().string()},
              {"datasets", {{{"path", path("rows.jsonl").string()}, {"type", ""}}}},
              {"sequence_len", 16},
              {"max_steps", 1},
              {"learning_rate", 1e-3},
              {"bf16", false},
              {"output_dir", path("out").string()}};
  }

  [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] fs::path model() const { return path("model"); }
  [[nodiscard]] fs::path weights() const { return model() / "model.safetensors"; }

  void edit_json(const fs::path& file, const std::function<void(json&)>& edit) const {
    json content = json::parse(read_file(file, kMaxBytes));
    edit(content);
    write_file(file, content.dump());
  }
  void edit_config_json(const std::string& key, const json& value) const {
    edit_json(model() / "config.json", [&](json& content) { content[key] = value; });
  }
  void make_pipe(const fs::path& file) const {
    fs::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  }
  void train_adapter(const std::string& from) { config.update({{"adapter", "lora"}, {"lora_model_dir", path(from)}}); }

  // YAML has JSON in it.
  void write_config() const { write_file(path("config.yml"), config.dump()); }
  [[nodiscard]] std::set<fs::path> files() const {
    std::set<fs::path> result;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) result.insert(entry.path());
    return result;
  }

  json config;

 private:
  TemporaryFolder folder_;
};

void check_refused(const Job& job, const std::vector<std::string>& args, const std::string& where) {
  const std::set<fs::path> before = job.files();
  const Finished run = run_spillway(args);
  INFO(run.err);
  CHECK(run.status == 2);
  CHECK(run.out == "");
  CHECK(job.files() == before);
  // The last line is the message; what comes before is progress.
  REQUIRE(run.err.ends_with('\n'));
  const std::string line = run.err.substr(run.err.rfind('\n', run.err.size() - 2) + 1);
  INFO(line);
  CHECK(line.starts_with("["));
  CHECK(line.find("] expected ") != std::string::npos);
  CHECK(line.find(", got ") != std::string::npos);
  CHECK(line.find("; ") != std::string::npos);
  CHECK(line.substr(0, line.find(']')).find(where) != std::string::npos);
}

struct Breakage {
  std::string name;
  std::string where;  // in the place that the message names
  std::function<void(Job&)> apply;
};

void check_each(const std::vector<Breakage>& breakages) {
  for (const Breakage& breakage : breakages) {
    CAPTURE(breakage.name);
    Job job;
    breakage.apply(job);
    job.write_config();
    check_refused(job, {"train", job.path("config.yml").string()}, breakage.where);
  }
}

// The rows are this text.
std::function<void(Job&)> rows(const std::string& text, const std::string& type = "") {
  return [=](Job& job) {
    write_file(job.path("rows.jsonl"), text);
    job.config["datasets"][0]["type"] = type;
  };
}

std::function<void(Job&)> key(const std::string& name, const json& value) {
  return [=](Job& job) { job.config[name] = value; };
}

}  // namespace

TEST_CASE("the job that the breakages start from works") {
  const Job job;
  job.write_config();
  const Finished run = run_spillway({"train", job.path("config.yml").string()});
  INFO(run.err);
  CHECK(run.status == 0);
}

TEST_CASE("a wrong config is refused by name") {
  check_each(
      {{"misspelt key", "learning_rte", key("learning_rte", 1)},
       {"wrong type", "learning_rate", key("learning_rate", "fast")},
       {"no ranks", "num_processes", key("num_processes", 0)},
       {"no DeepSpeed file", "deepspeed", key("deepspeed", "zero.json")},
       {"DeepSpeed key", "deepspeed.zero_optimisation", key("deepspeed", {{"zero_optimisation", json::object()}})},
       {"modes apart", "selective_checkpointing",
        [](Job& job) {
          job.config.update({{"gradient_checkpointing", false}, {"selective_checkpointing", true}});
        }},
       {"no such module", "lora_target_modules",
        [](Job& job) {
          job.config.update({{"adapter", "lora"}, {"lora_r", 4}, {"lora_target_modules", {"nope"}}});
        }},
       {"new token beside an adapter", "special_tokens.eos_token",
        [](Job& job) {
          job.config.update({{"adapter", "lora"}, {"lora_r", 4}, {"special_tokens", {{"eos_token", "</nope>"}}}});
        }},
       {"budget", "memory.device", key("memory", {{"device", "1KiB"}})},
       {"output is a file", "out", [](Job& job) { write_file(job.path("out"), "mine"); }},
       {"output is the model", "output_dir",
        [](Job& job) { job.config["output_dir"] = (job.model() / ".").string(); }}});
}

TEST_CASE(
    "files that are missing or do not fit are refused before anything is planned, and a plan reads headers, too") {
  const auto started = [](const Job& job, const char* command) {
    job.write_config();
    const Finished run = run_spillway({command, job.path("config.yml").string()});
    CAPTURE(run.err);
    CHECK(run.err.find("tier     budget") == std::string::npos);
    return run.status;
  };
  const Job cut, layers, without, rows;
  fs::resize_file(cut.weights(), fs::file_size(cut.weights()) / 2);
  layers.edit_config_json("num_hidden_layers", 3);
  fs::remove(without.weights());
  fs::remove(rows.path("rows.jsonl"));
  for (const Job* job : {&cut, &layers, &without, &rows}) CHECK(started(*job, "train") == 2);
  for (const Job* job : {&cut, &layers}) CHECK(started(*job, "plan") == 2);
  for (const Job* job : {&without, &rows}) CHECK(started(*job, "plan") == 0);
}

TEST_CASE("a broken model folder is refused with the file") {
  check_each({
      {"no folder", "base_model", key("base_model", "nowhere")},
      {"no config.json", "config.json", [](Job& job) { fs::remove(job.model() / "config.json"); }},
      {"no weights", "model", [](Job& job) { fs::remove(job.weights()); }},
      {"no tokenizer", "model", [](Job& job) { fs::remove(job.model() / "tokenizer.json"); }},
      {"tokenizer cut short", "tokenizer.json", [](Job& job) { write_file(job.model() / "tokenizer.json", "{"); }},
      {"other architecture", "config.json",
       [](Job& job) { job.edit_config_json("architectures", json::array({"GPT2LMHeadModel"})); }},
      {"huge size", "config.json", [](Job& job) { job.edit_config_json("hidden_size", int64_t{1} << 40); }},
      {"other shapes", "model.safetensors", [](Job& job) { job.edit_config_json("intermediate_size", 96); }},
      {"other vocabulary", "model.safetensors", [](Job& job) { job.edit_config_json("vocab_size", 8); }},
      {"a layer too few", "model", [](Job& job) { job.edit_config_json("num_hidden_layers", 3); }},
      {"a layer too many", "model", [](Job& job) { job.edit_config_json("num_hidden_layers", 1); }},
      {"weights cut short", "model.safetensors",
       [](Job& job) { fs::resize_file(job.weights(), fs::file_size(job.weights()) / 2); }},
      {"NaN", "model.safetensors",
       [](Job& job) {
         std::string bytes = read_file(job.weights(), kMaxBytes);
         bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xC0\x7F", 4));
         write_file(job.weights(), bytes);
       }},
      {"missing shard", "model.safetensors.index.json",
       [](Job& job) {
         fs::remove(job.weights());
         write_file(job.model() / "model.safetensors.index.json",
                    R"({"metadata": {}, "weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})");
       }},
      {"weights are a pipe", "model.safetensors", [](Job& job) { job.make_pipe(job.weights()); }},
      {"config.json is a pipe", "config.json", [](Job& job) { job.make_pipe(job.model() / "config.json"); }},
      {"tokenizer is a pipe", "tokenizer.json", [](Job& job) { job.make_pipe(job.model() / "tokenizer.json"); }},
  });
}

TEST_CASE("wrong data is refused with file and line") {
  check_each({
      {"no JSON", "rows.jsonl:2", rows("{\"input_ids\": [1, 2]}\n{oops\n")},
      {"a list", "rows.jsonl:1", rows("[1, 2]\n")},
      {"missing field", "rows.jsonl:1", rows("{\"labels\": [1]}\n")},
      {"text for a list", "rows.jsonl:1", rows("{\"input_ids\": \"abc\"}\n")},
      {"labels of other length", "rows.jsonl:1", rows("{\"input_ids\": [1, 2], \"labels\": [1]}\n")},
      {"id beyond the vocabulary", "rows.jsonl:1", rows("{\"input_ids\": [1, 96]}\n")},
      {"number for text", "rows.jsonl:1", rows("{\"text\": 5}\n", "completion")},
      {"unknown type", "datasets", rows("{\"text\": \"w1\"}\n", "sharegpt2")},
      {"empty", "datasets", rows("")},
      {"no file", "rows.jsonl", [](Job& job) { fs::remove(job.path("rows.jsonl")); }},
      {"a pipe", "rows.jsonl", [](Job& job) { job.make_pipe(job.path("rows.jsonl")); }},
      {"an empty folder", "rows.jsonl",
       [](Job& job) {
         fs::remove(job.path("rows.jsonl"));
         fs::create_directory(job.path("rows.jsonl"));
       }},
  });
}

TEST_CASE("an adapter that does not belong to the model is refused") {
  const auto with = [](const std::function<void(Job&)>& change) {
    return [=](Job& job) {
      job.train_adapter("adapter");
      change(job);
    };
  };
  check_each({
      {"no folder", "lora_model_dir", with([](Job& job) { fs::remove_all(job.path("adapter")); })},
      {"no weights", "adapter", with([](Job& job) { fs::remove(job.path("adapter") / "adapter_model.safetensors"); })},
      {"other rank", "adapter_config.json", with([](Job& job) {
         job.edit_json(job.path("adapter") / "adapter_config.json", [](json& content) { content["r"] = 64; });
       })},
      {"of another model", "adapter_model.safetensors", with([](Job& job) {
         fs::remove_all(job.path("adapter"));
         fs::copy(kGoldenModels / "qwen3_tied/adapter", job.path("adapter"));
       })},
  });
}

TEST_CASE("the other commands refuse what is wrong and write nothing") {
  const Job job;
  fs::copy(kGoldenModels / "qwen3_tied/adapter", job.path("other"));
  write_file(job.path("bad.gguf"), "GGUF" + std::string(40, '\xFF'));
  write_file(job.path("empty.gguf"), "");
  job.make_pipe(job.path("pipe.gguf"));
  const std::string model = job.model().string(), adapter = job.path("adapter").string(),
                    other = job.path("other").string(), out = job.path("out").string();
  check_refused(job, {"import", job.path("bad.gguf").string(), "--out", out}, "bad.gguf");
  check_refused(job, {"import", job.path("empty.gguf").string(), "--out", out}, "empty.gguf");
  check_refused(job, {"import", job.path("pipe.gguf").string(), "--out", out}, "pipe.gguf");
  check_refused(job, {"merge", model, "--adapter", other, "--out", out}, "adapter_model.safetensors");
  check_refused(job, {"merge", model, "--adapter", adapter, "--out", model}, "--out");
  check_refused(job, {"merge", model, "--adapter", adapter, "--out", job.path("bad.gguf").string()}, "bad.gguf");
  check_refused(job, {"generate", model, "--adapter", other, "--prompt", "w1", "--json"}, "adapter_model.safetensors");
  check_refused(job, {"generate", "nowhere", "--prompt", "w1", "--json"}, "MODEL");
  check_refused(job, {"tokenize", model, "--file", job.path("pipe.gguf").string(), "--json"}, "pipe.gguf");
  check_refused(job, {"preprocess", job.path("pipe.gguf").string(), "--json"}, "pipe.gguf");
}
