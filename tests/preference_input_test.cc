// Tests invalid preference data with the real program: exit status 2, one line that says what to do, and no model
// written.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kPair = R"({"prompt": "The sky is", "chosen": " blue.", "rejected": " green"})";

// A run over these rows, which fails; gives back its message.
std::string refused(const std::string& rows, json keys) {
  const TemporaryFolder folder;
  write_file(folder.path() / "rows.jsonl", rows + "\n");
  const fs::path output = folder.path() / "out";
  json config = {{"base_model", (preference_goldens() / "model").string()},
                 {"datasets", {{{"path", (folder.path() / "rows.jsonl").string()}}}},
                 {"sequence_len", 40},
                 {"micro_batch_size", 2},
                 {"max_steps", 1},
                 {"learning_rate", 1e-3},
                 {"bf16", false},
                 {"output_dir", output.string()}};
  config.update(keys);
  write_file(folder.path() / "config.yml", config.dump());
  const Finished run = run_spillway({"train", (folder.path() / "config.yml").string()});
  INFO(run.err);
  CHECK(run.status == 2);
  CHECK_FALSE(fs::exists(output));
  REQUIRE(run.err.size() > 1);
  const std::string line = run.err.substr(run.err.rfind('\n', run.err.size() - 2) + 1);
  CHECK(line.starts_with("["));
  CHECK(line.find("] expected ") != std::string::npos);
  CHECK(line.find(", got ") != std::string::npos);
  CHECK(line.find("; ") != std::string::npos);
  return line;
}

}  // namespace

TEST_CASE("wrong preferences are refused by row, column or key") {
  const auto pairs = [](const std::string& rows) { return refused(rows, {{"rl", "dpo"}}); };
  CHECK(pairs(R"({"prompt": "a", "rejected": " b"})").find("chosen") != std::string::npos);
  CHECK(pairs(R"({"prompt": "a", "chosen": " b", "rejected": 5})").find("rows.jsonl:1") != std::string::npos);
  CHECK(pairs(R"({"prompt": "a", "chosen": " b", "rejected": null})").find("rejected") != std::string::npos);
  CHECK(pairs(R"({"prompt": "a", "completion": " b", "label": true})").find("set rl: kto") != std::string::npos);
  CHECK(pairs(R"({"prompt": "The sky is", "chosen": " blue.", "rejected": " blue."})").find("they are equal") !=
        std::string::npos);
  // The prompt fills all that there is room for: the row is dropped, and nothing remains.
  CHECK(refused(kPair, {{"rl", "dpo"}, {"sequence_len", nullptr}, {"max_length", 2}})
            .find("expected at least one row to train on") != std::string::npos);
  // Answers alone, of which nobody says what was asked.
  const std::string answers = R"("chosen": [{"role": "assistant", "content": "b"}],)"
                              R"( "rejected": [{"role": "assistant", "content": "c"}]})";
  for (const std::string prompt : {R"({"prompt": "a", )", "{"})
    CHECK(pairs(prompt + answers).find("rows.jsonl:1] expected a prompt of messages") != std::string::npos);
  const std::string labels = R"({"prompt": "a", "completion": " b", "label": true})"
                             "\n"
                             R"({"prompt": "c", "completion": " d", "label": true})";
  CHECK(refused(labels, {{"rl", "kto"}}).find("all wanted") != std::string::npos);
  CHECK(refused(labels, {{"rl", "kto"}, {"micro_batch_size", 1}}).find("at least 2 for kto") != std::string::npos);
  CHECK(refused(R"({"prompt": "a", "completion": " b", "label": "perhaps"})", {{"rl", "kto"}}).find("true or false") !=
        std::string::npos);
  CHECK(
      refused(R"({"chosen": "a b", "rejected": "a c", "margin": "much"})", {{"reward_model", true}}).find("'margin'") !=
      std::string::npos);
  CHECK(refused(kPair, {{"rl", "dpo"}, {"dpo_loss_type", {"sigmoyd"}}}).find("did you mean sigmoid?") !=
        std::string::npos);
}

TEST_CASE("a reference that cannot be one is refused by its folder") {
  const auto reference = [](const fs::path& folder, json keys) {
    keys.update({{"rl", "dpo"}, {"ref_model", folder.string()}});
    return refused(kPair, keys);
  };
  const fs::path others = source_folder() / "tests/golden/models";
  const std::string vocabulary = reference(others / "qwen3", {});
  CHECK(vocabulary.starts_with("[ref_model] expected a model with a vocabulary of 420, as "));
  CHECK(vocabulary.find("qwen3'; name another") != std::string::npos);
  CHECK(reference(preference_goldens() / "reward_model", {}).find("expected a model that predicts tokens") !=
        std::string::npos);
  const std::string shapes = reference(preference_goldens() / "other_model", {{"sync_ref_model", true}});
  CHECK(shapes.starts_with("[ref_model] expected model.embed_tokens.weight as [420, 32], as "));
  CHECK(shapes.find("got [420, 24] in ") != std::string::npos);
  CHECK(reference(preference_goldens() / "nosuch", {}).find("nosuch") != std::string::npos);
}

TEST_CASE("a model that scores texts is no start for one that scores steps, nor the other way") {
  const std::string step = R"({"prompt": "2 + 3 =", "completions": [" 5"], "labels": [true]})";
  const std::string of_texts = (preference_goldens() / "reward_model").string();
  CHECK(refused(step, {{"process_reward_model", true}, {"base_model", of_texts}}).find("one that scores steps, got") !=
        std::string::npos);
  const std::string of_steps = (preference_goldens() / "step_model").string();
  CHECK(refused(kPair, {{"reward_model", true}, {"base_model", of_steps}}).find("one that scores texts, got") !=
        std::string::npos);
}

TEST_CASE("a model that scores predicts no tokens, and is not asked to") {
  const std::string model = (preference_goldens() / "reward_model").string();
  CHECK(refused(kPair, {{"rl", "dpo"}, {"base_model", model}}).find("expected a model that predicts tokens") !=
        std::string::npos);
  const Finished run = run_spillway({"generate", model, "--prompt", "The sky is"});
  CHECK(run.status == 2);
  CHECK(run.err.find("expected a model that predicts tokens") != std::string::npos);
}

TEST_CASE("an adapter that brings a score goes on as what it is, and predicts no tokens") {
  const std::string model = (preference_goldens() / "model").string(),
                    of_texts = (preference_goldens() / "adapter_reward").string(),
                    of_steps = (preference_goldens() / "adapter_steps").string();
  const auto continued = [&](const std::string& rows, json keys, const std::string& adapter) {
    keys.update({{"adapter", "lora"}, {"lora_model_dir", adapter}});
    return refused(rows, keys);
  };
  CHECK(
      continued(kPair, {{"rl", "dpo"}}, of_texts)
          .starts_with("[lora_model_dir] expected an adapter of a model that predicts tokens, got one of a model that "
                       "scores texts, "));
  CHECK(continued(R"({"text": "The sky is blue."})", json::object(), of_steps).find("that scores steps, ") !=
        std::string::npos);
  CHECK(continued(kPair, {{"reward_model", true}}, of_steps).find("that scores texts, got one of a model that ") !=
        std::string::npos);
  for (const std::string& adapter : {of_texts, of_steps}) {
    const Finished run = run_spillway({"generate", model, "--adapter", adapter, "--prompt", "The sky is"});
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK(run.err.find(adapter + "] expected a model that predicts tokens, got one that scores texts") !=
          std::string::npos);
  }
}
