// The end of an answer, from the rows of a base model to what stops an answer: with a template that ends turns with
// another token than the model's EOS.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/gguf.h"
#include "tests/support/process.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kEos = 263, kTurnEnd = 261;
constexpr const char* kTemplate =
    "{% for m in messages %}<|start|>{{ m.role + '\n' + m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>{{ 'assistant\n' }}{% endif %}";

// A base model in base/, whose EOS the template never writes, and conversations to learn.
class Base : public WorkingFolder {
 public:
  Base() {
    fs::copy(fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/export/qwen3", "base");
    write("base/tokenizer_config.json", R"({"eos_token": "<tool>"})");
    auto config = json::parse(read_file("base/config.json", 1 << 20));
    config["eos_token_id"] = kEos;
    write("base/config.json", config.dump());
    write("chats.jsonl", row("hi", "yo") + row("ho", "no"));
    write("ask.json", json::array({{{"role", "user"}, {"content", "hi"}}}).dump());
  }

  static std::string row(const char* question, const char* answer) {
    return json{{"messages", {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}}
               .dump() +
           "\n";
  }

  Finished train(const json& more = json::object()) const {
    json config = {{"base_model", "base"},
                   {"chat_template_jinja", kTemplate},
                   {"datasets", {{{"path", "chats.jsonl"}, {"type", "chat_template"}}}},
                   {"sequence_len", 32},
                   {"micro_batch_size", 2},
                   {"max_steps", 150},
                   {"learning_rate", 1e-2},
                   {"lr_scheduler", "constant"},
                   {"bf16", false},
                   {"save_strategy", "no"},
                   {"output_dir", "out"}};
    config.update(more);
    write("c.yml", config.dump());
    return run_spillway({"train", "c.yml"});
  }

  static json answer(const std::vector<std::string>& model) {
    std::vector<std::string> args = {"generate"};
    args.insert(args.end(), model.begin(), model.end());
    for (const char* one : {"--messages", "ask.json", "--temperature", "0", "--max-new-tokens", "24", "--json"})
      args.emplace_back(one);
    const Finished run = run_spillway(args);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return json::parse(run.out);
  }

  static json ends_in(const std::string& folder) {
    return json::parse(read_file(folder + "/generation_config.json", 1 << 20))["eos_token_id"];
  }
};

const json kAdapter = {{"adapter", "lora"},
                       {"lora_r", 16},
                       {"lora_alpha", 32},
                       {"lora_target_linear", true},
                       {"lora_modules_to_save", {"embed_tokens", "lm_head"}}};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a base model that was taught a template ends its answers, and so does what is made of it") {
  const Base base;
  const Finished run = base.train();
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  CHECK_FALSE(contains(run.err, "does not learn to stop"));
  CHECK(Base::ends_in("out") == json{kEos, kTurnEnd});
  const json answer = Base::answer({"out"});
  CHECK(answer["text"] == "yo");
  CHECK(answer["finish_reason"] == "stop");
  REQUIRE(run_spillway({"export", "out", "--gguf", "x.gguf", "--type", "f32", "--modelfile", "Modelfile"}).status == 0);
  CHECK(GgufFile("x.gguf").get<int64_t>("tokenizer.ggml.eot_token_id") == kTurnEnd);
  CHECK(contains(read_file("Modelfile", 1 << 16), "PARAMETER stop \"<|end|>\""));
}

TEST_CASE("an adapter brings the ends that it was taught to generate, merge and the next run") {
  const Base base;
  json config = kAdapter;
  config["sample_prompts"] = {"hi"};
  config["sample_every_steps"] = 150;
  const Finished run = base.train(config);
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.err, "'hi' 'yo'"));  // a sample ends, too
  CHECK(Base::ends_in("out") == json{kEos, kTurnEnd});
  CHECK(Base::answer({"base", "--adapter", "out"})["finish_reason"] == "stop");
  REQUIRE(run_spillway({"merge", "base", "--adapter", "out", "--out", "merged"}).status == 0);
  CHECK(Base::ends_in("merged") == json{kEos, kTurnEnd});
  CHECK(Base::answer({"merged"})["finish_reason"] == "stop");
  // A run on texts that starts from the adapter keeps them.
  write_file("texts.jsonl", "{\"text\": \"more\"}\n");
  json next = kAdapter;
  next.update({{"lora_model_dir", "out"},
               {"datasets", {{{"path", "texts.jsonl"}, {"type", "completion"}}}},
               {"max_steps", 1},
               {"output_dir", "next"}});
  REQUIRE(base.train(next).status == 0);
  CHECK(Base::ends_in("next") == json{kEos, kTurnEnd});
}

TEST_CASE("train and preprocess warn where no answer's end is learned, and leave the model's ends as they are") {
  const Base base;
  const Finished run = base.train({{"eot_tokens", json::array()}, {"max_steps", 1}});
  REQUIRE(run.status == 0);
  CHECK(contains(run.err, "the end of the answer is a target in none of 2 rows"));
  CHECK_FALSE(fs::exists("out/generation_config.json"));
  const Finished rows = run_spillway({"preprocess", "c.yml", "--out", "rows"});
  CHECK(contains(rows.err, "the end of the answer is a target in none of 2 rows"));
}

TEST_CASE("rows of a stream teach their ends as well") {
  const Base base;
  const Finished run = base.train({{"streaming", true}, {"max_steps", 2}});
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  CHECK(Base::ends_in("out") == json{kEos, kTurnEnd});
}
