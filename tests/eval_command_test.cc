// `spillway eval` against lm-evaluation-harness and transformers: tools/make_eval_goldens.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

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
  check_choices(eval({"--choices", golden("choices.jsonl"), "--no-special"}), expected().at("plain"));
  check_choices(eval({"--choices", golden("choices.jsonl"), "--special"}), expected().at("special"));
  check_choices(eval({"--choices", golden("choices.jsonl")}), expected().at("special"));
}

TEST_CASE("answers are those of lm-evaluation-harness, and so is the share that is exact") {
  const json theirs = json::parse(read_file(golden("exact.json"), 1 << 20));
  std::vector<std::string> common = {"--exact", golden("exact.jsonl"), "--max-new-tokens",
                                     std::to_string(theirs.at("max_new_tokens").get<int>())};
  for (const json& stop : theirs.at("stops")) common.insert(common.end(), {"--stop", stop});
  for (const json& set : theirs.at("sets")) {
    const json& rules = set.at("rules");
    CAPTURE(rules.dump());
    std::vector<std::string> args = common;
    for (const char* flag : {"ignore_case", "ignore_punctuation", "ignore_numbers", "strip"}) {
      std::string name = "--" + std::string(flag);
      std::replace(name.begin(), name.end(), '_', '-');
      if (rules.value(flag, false)) args.push_back(name);
    }
    for (const json& pattern : rules.value("regexes_to_ignore", json::array()))
      args.insert(args.end(), {"--ignore-regex", pattern});
    if (rules.contains("extract")) args.insert(args.end(), {"--extract", rules.at("extract")});
    if (rules.contains("match")) args.insert(args.end(), {"--match", std::to_string(rules.at("match").get<int>())});
    if (rules.contains("fallback")) args.insert(args.end(), {"--fallback", rules.at("fallback")});
    const json ours = eval(args);
    CHECK(ours.at("items") == theirs.at("texts").size());
    for (size_t i = 0; i < theirs.at("texts").size(); ++i) {
      CAPTURE(i);
      const json& answer = ours.at("answers")[i];
      CHECK(answer.at("text") == theirs.at("texts")[i]);
      CHECK(answer.at("extracted") == set.at("extracted")[i]);
      CHECK(answer.at("exact_match") == set.at("exact")[i]);
    }
    CHECK(ours.at("exact_match").get<double>() == doctest::Approx(set.at("exact_match").get<double>()));
    CHECK(ours.at("exact_match_stderr").get<double>() == doctest::Approx(set.at("stderr").get<double>()));
  }
}

TEST_CASE("answers are written a line each, to a new file, and are what --json has") {
  const WorkingFolder folder;
  const std::vector<std::string> args = {"--exact", golden("exact.jsonl"), "--max-new-tokens", "5", "--out", "a.jsonl"};
  const json ours = eval(args);
  const std::string lines = read_file("a.jsonl", 1 << 20);
  json written = json::array();
  for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1)
    written.push_back(json::parse(lines.substr(at, lines.find('\n', at) - at)));
  CHECK(written == ours.at("answers"));
  std::vector<std::string> again = {"eval", model()};
  again.insert(again.end(), args.begin(), args.end());
  const Finished run = run_spillway(again);
  CHECK(run.status == 2);
  CHECK(run.err.find("[--out] expected a file that is not there yet") != std::string::npos);
}

TEST_CASE("questions that cannot be asked are named with their line") {
  const WorkingFolder folder;
  const auto message = [&](const std::string& line, const std::vector<std::string>& more = {}) {
    folder.write("q.jsonl", line + "\n");
    std::vector<std::string> args = {"eval", model(), "--exact", "q.jsonl"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished run = run_spillway(args);
    CHECK(run.status == 2);
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    return run.err;
  };
  const auto says = [](const std::string& text, const char* part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(says(message("{"), "q.jsonl:1"));
  CHECK(says(message("[1]"), "q.jsonl:1"));
  CHECK(says(message(""), "expected an item a line, got none"));
  CHECK(says(message(R"({"target": "a"})"), "expected either 'prompt' or 'messages', got neither"));
  CHECK(says(message(R"({"prompt": "a"})"), "target"));
  CHECK(says(message(R"({"prompt": "a", "target": []})"), "at least one text"));
  CHECK(says(message(R"({"prompt": "a", "target": {"b": 1}})"), "a text"));
  CHECK(says(message(R"({"prompt": "a", "target": 1.5})"), "target"));
  CHECK(says(message(R"({"prompt": "a", "target": "b", "targets": "c"})"), "remove one"));
  CHECK(says(message(R"({"prompt": "a", "target": "b", "stop": [""]})"), "got an empty one"));
  CHECK(says(message(R"({"prompt": "a", "target": "b", "max_new_tokens": 96})"), "below the 96 tokens"));
  CHECK(says(message(R"({"prompt": "a", "target": "b", "max_new_tokens": 0})"), "max_new_tokens"));
  CHECK(says(message(R"({"messages": "hello", "target": "b"})"), "q.jsonl:1"));
  const char* fine = R"({"prompt": "a", "target": "b", "max_new_tokens": 3})";
  CHECK(says(message(fine, {"--extract", "("}), "[--extract]"));
  CHECK(says(message(fine, {"--ignore-regex", "\\h"}), "[--ignore-regex]"));
  CHECK(says(message(fine, {"--stop", ""}), "--stop"));
  CHECK(says(message(fine, {"--match", "1"}), "[--match] expected it with --extract"));
  CHECK(says(message(fine, {"--fallback", "none"}), "[--fallback] expected it with --extract"));
  const Finished alone = run_spillway({"eval", model(), "--choices", golden("choices.jsonl"), "--ignore-case"});
  CHECK(alone.status == 2);
  CHECK(says(alone.err, "[--ignore-case] expected it with --exact"));
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

TEST_CASE("a quantised model is evaluated, whether or not the config trains an adapter beside it") {
  const WorkingFolder folder;
  REQUIRE(run_spillway({"quantize", model(), "--out", "q"}).status == 0);
  const auto loss = [&](const std::string& keys) {
    write_config(folder, keys);
    const Finished run = run_spillway({"eval", "q", "--config", "c.yml", "--json"});
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return json::parse(run.out).at("loss").get<double>();
  };
  const double dense = expected().at("rows").at("loss").get<double>(), coded = loss("adapter: lora\nlora_r: 4\n");
  CHECK(coded == doctest::Approx(dense).epsilon(0.1));
  CHECK(coded != dense);
  CHECK(loss("") == coded);
}

TEST_CASE("an adapter over LoftQ's bits is evaluated over the base that it was trained on, if the config says so") {
  const WorkingFolder folder;
  const std::string keys = "adapter: lora\nlora_r: 4\nlora_target_linear: true\n";
  const std::string loftq = keys + "peft_init_lora_weights: loftq\n";
  write_config(folder, loftq + "output_dir: out\nlogging_steps: 1\n");
  const Finished trained = run_spillway({"train", "c.yml", "--base_model", model()});
  CAPTURE(trained.err);
  REQUIRE(trained.status == 0);
  std::istringstream lines(folder.read("out/metrics.jsonl"));
  double in_training = 0;
  for (std::string line; std::getline(lines, line);) in_training = json::parse(line).value("eval_loss", in_training);
  REQUIRE(in_training > 0);
  const auto evaluated = [&](const std::string& more) {
    write_config(folder, more);
    Finished run = run_spillway({"eval", model(), "--adapter", "out", "--config", "c.yml", "--json"});
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return std::pair(json::parse(run.out).at("loss").get<double>(), std::move(run.err));
  };
  const auto [loss, quiet] = evaluated(loftq);
  CHECK(loss == doctest::Approx(in_training).epsilon(1e-6));
  CHECK(quiet.find("was trained over a base") == std::string::npos);
  const auto [dense, warning] = evaluated(keys);
  CHECK(std::abs(dense - in_training) > 1e-4);
  CHECK(warning.find("out was trained over a base in which") != std::string::npos);
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
  CHECK(choices(R"({"context": "a", "choices": ["b", "c"], "gold": 0, "label": 1})")
            .find("c.jsonl:2: label] expected one of gold and label, got 1; remove one") != std::string::npos);
  CHECK(choices(R"({"choices": ["b", "c"], "gold": 0})").find("context") != std::string::npos);
  folder.write("none.jsonl", "");
  CHECK(message({"--choices", "none.jsonl"}).find("expected an item a line, got none") != std::string::npos);
  CHECK(message({"--choices", "gone.jsonl"}).find("gone.jsonl") != std::string::npos);
  CHECK(message({}).find("--config") != std::string::npos);
  write_config(folder, "rl: dpo\n");
  CHECK(message({"--config", "c.yml"}).find("expected a config of text, got one of dpo") != std::string::npos);
}
