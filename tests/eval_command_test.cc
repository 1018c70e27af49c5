// `spillway eval` against lm-evaluation-harness and transformers: tools/make_eval_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"
#include "tests/support/working_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

namespace {

std::string model() { return (source_folder() / "tests/golden/preference_training/model").string(); }
std::string golden(const char* name) { return (source_folder() / "tests/golden/eval" / name).string(); }
json expected() { return json::parse(read_file(golden("expected.json"), 1 << 20)); }

json eval(std::vector<std::string> args) {
  args.insert(args.begin(), {"eval", model()});
  args.emplace_back("--json");
  const Finished run = run_spillway(args);
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  return json::parse(run.out);
}

void check_choices(const json& ours, const json& theirs) {
  REQUIRE(ours.at("choices").size() == theirs.at("choices").size());
  for (size_t item = 0; item < theirs.at("choices").size(); ++item) {
    CAPTURE(item);
    const json &one = ours.at("choices")[item], &other = theirs.at("choices")[item];
    CHECK(one.at("is_greedy") == other.at("is_greedy"));
    REQUIRE(one.at("log_probs").size() == other.at("log_probs").size());
    for (size_t i = 0; i < other.at("log_probs").size(); ++i)
      CHECK(std::abs(one.at("log_probs")[i].get<double>() - other.at("log_probs")[i].get<double>()) < 1e-4);
  }
  for (const char* name : {"acc", "acc_norm", "acc_bytes", "acc_stderr", "acc_norm_stderr", "acc_bytes_stderr"}) {
    CAPTURE(std::string(name));
    CHECK(ours.at(name).get<double>() == doctest::Approx(theirs.at(name).get<double>()));
  }
}

// A config whose rows to validate with are the golden ones.
void write_config(const WorkingFolder& folder, const std::string& more = "") {
  folder.write("c.yml", "datasets: [{path: '" + golden("rows.jsonl") + "', type: ''}]\ntest_datasets: [{path: '" +
                            golden("rows.jsonl") + "', type: ''}]\nsequence_len: 32\nmicro_batch_size: 2\n" +
                            "learning_rate: 1e-3\nbase_model: elsewhere\nbf16: false\n" + more);
}

}  // namespace

TEST_CASE("choices have the log-likelihoods, and answers the accuracies, of lm-evaluation-harness") {
  check_choices(eval({"--choices", golden("choices.jsonl")}), expected().at("plain"));
  check_choices(eval({"--choices", golden("choices.jsonl"), "--special"}), expected().at("special"));
}

TEST_CASE("loss and token accuracy of a config's rows are transformers'") {
  const WorkingFolder folder;
  const json theirs = expected().at("rows");
  for (const char* more : {"", "sample_packing: true\n"}) {
    CAPTURE(std::string(more));
    write_config(folder, more);
    const json ours = eval({"--config", "c.yml"});
    CHECK(ours.at("rows") == 3);
    CHECK(ours.at("targets") == theirs.at("targets"));
    CHECK(ours.at("loss").get<double>() == doctest::Approx(theirs.at("loss").get<double>()).epsilon(1e-5));
    CHECK(ours.at("perplexity").get<double>() ==
          doctest::Approx(std::exp(theirs.at("loss").get<double>())).epsilon(1e-4));
    CHECK(ours.at("mean_token_accuracy").get<double>() ==
          doctest::Approx(theirs.at("mean_token_accuracy").get<double>()));
  }
}

TEST_CASE("an adapter that changes nothing leaves the scores, and another changes them") {
  const std::string adapters = (source_folder() / "tests/golden/preference_training").string();
  const json plain = eval({"--choices", golden("choices.jsonl")});
  const json other = eval({"--choices", golden("choices.jsonl"), "--adapter", adapters + "/adapter_continued"});
  CHECK(plain.at("choices") != other.at("choices"));
}

TEST_CASE("less memory reads weights from the files, and changes no bit") {
  const json plain = eval({"--choices", golden("choices.jsonl")});
  const Finished least =
      run_spillway({"eval", model(), "--choices", golden("choices.jsonl"), "--memory.device", "4KiB"});
  CHECK(least.status == 2);
  const size_t begin = least.err.find("at least ") + 9;
  REQUIRE(begin > 9);
  std::string size = least.err.substr(begin, least.err.find(',', begin) - begin);
  std::erase(size, ' ');
  CHECK(eval({"--choices", golden("choices.jsonl"), "--memory.device", size}).at("choices") == plain.at("choices"));
}

TEST_CASE("what cannot be evaluated is named with its line") {
  const WorkingFolder folder;
  const auto message = [&](const std::vector<std::string>& args) {
    std::vector<std::string> all = {"eval", model()};
    all.insert(all.end(), args.begin(), args.end());
    const Finished run = run_spillway(all);
    CHECK(run.status == 2);
    return run.err;
  };
  const auto choices = [&](const std::string& line) {
    folder.write("c.jsonl", R"({"context": "a", "choices": ["b", "c"], "gold": 0})"
                            "\n" +
                                line + "\n");
    return message({"--choices", "c.jsonl"});
  };
  CHECK(choices(R"({"context": "a", "choices": ["b"], "gold": 0})").find("c.jsonl:2") != std::string::npos);
  CHECK(choices(R"({"context": "a", "choices": ["b", "c"], "gold": 2})").find("gold") != std::string::npos);
  CHECK(choices(R"({"context": "a", "choices": ["b", ""], "gold": 0})").find("expected a text") != std::string::npos);
  CHECK(choices(R"({"choices": ["b", "c"], "gold": 0})").find("context") != std::string::npos);
  folder.write("none.jsonl", "");
  CHECK(message({"--choices", "none.jsonl"}).find("expected an item a line, got none") != std::string::npos);
  CHECK(message({"--choices", "gone.jsonl"}).find("gone.jsonl") != std::string::npos);
  CHECK(message({}).find("--config") != std::string::npos);
  write_config(folder, "rl: dpo\n");
  CHECK(message({"--config", "c.yml"}).find("expected a config of text, got one of dpo") != std::string::npos);
}
