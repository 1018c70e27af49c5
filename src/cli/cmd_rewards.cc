#include "cli/cmd_rewards.h"

#include <cmath>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "base/error.h"
#include "base/json.h"
#include "base/local_time.h"
#include "base/log.h"
#include "base/parallel.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "infer/scoring/reward_scorer.h"
#include "io/json_lines.h"
#include "rewards/advantages.h"
#include "rewards/builtin.h"
#include "rewards/rewards.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

using rewards::Json;

constexpr CommandFlag kRewardsFlags[] = {
    {"--lines", "FILE.jsonl",
     "completions, a JSON object a line: prompt, completion (texts or lists of messages), perhaps "
     "completion_ids, and any other columns"},
    {"--json-lines", "", "print a JSON object for each: rewards by name, their weighted sum, and what functions log"}};
constexpr std::string_view kRewardsExamples[] = {
    "spillway rewards config.yml --lines completions.jsonl --json-lines",
    "spillway rewards config.yml --lines completions.jsonl --json-lines --reward_funcs my.score"};
constexpr ConfigCommand kRewardsCommand = {
    "rewards",
    "Shows what reward functions say of completions that exist; only reward models' "
    "weights are read.",
    kRewardsFlags, kRewardsExamples};

// A text, or a list of messages.
bool is_conversation_or_text(const Json& value) {
  if (value.is_string()) return true;
  if (!value.is_array() || value.empty()) return false;
  for (const Json& message : value) {
    if (!message.is_object() || !message.contains("content")) return false;
  }
  return true;
}

// Reads the lines; loads the tokenizer for the first that wants it.
class LineReader {
 public:
  explicit LineReader(const config::TokenizerSettings& settings) : folder_(settings.folder) {}

  rewards::RewardInput read(const std::string& path) {
    each_line(path, [&](std::string_view text, const std::string& where) {
      if (!text.empty()) add(text, where);
    });
    return std::move(input_);
  }

 private:
  void add(std::string_view text, const std::string& where) {
    const auto line = parse_json<Json>(text, where);
    if (!line.is_object()) throw input_error(where, "expected a JSON object, got something else; correct the line");
    for (const char* name : {"prompt", "completion"}) {
      if (!line.contains(name) || !is_conversation_or_text(line[name]))
        throw input_error(where, "expected a text or a list of messages as {}, got {}; correct the line", name,
                          line.contains(name) ? "something else" : "none");
    }
    input_.prompts.push_back(line["prompt"]);
    input_.completions.push_back(line["completion"]);
    input_.completion_ids.push_back(ids_of(line, where));
    for (const auto& [name, value] : line.items()) {
      if (name == "prompt" || name == "completion" || name == "completion_ids") continue;
      // Lines before that do not have it say nothing.
      Json& column = input_.columns.emplace(name, Json::array()).first.value();
      while (column.size() + 1 < input_.completion_ids.size()) column.push_back(nullptr);
      column.push_back(value);
    }
    for (auto& column : input_.columns) {
      if (column.size() < input_.completion_ids.size()) column.push_back(nullptr);
    }
  }

  std::vector<int32_t> ids_of(const Json& line, const std::string& where) {
    const auto said = line.find("completion_ids");
    if (said == line.end() || said->is_null()) {
      if (!tokenizer_) {
        if (folder_.empty())
          throw input_error(where, "expected completion_ids, or base_model in the config, got neither; give one");
        tokenizer_ = text::Tokenizer::load(folder_);
      }
      return tokenizer_->encode(rewards::text_of(line["completion"]), false);
    }
    std::vector<int32_t> ids;
    const auto bad = [&] {
      return input_error(where, "expected a list of token ids as completion_ids, got something else; correct the line");
    };
    if (!said->is_array()) throw bad();
    for (const Json& id : *said) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) throw bad();
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

  std::string folder_;
  std::optional<text::Tokenizer> tokenizer_;
  rewards::RewardInput input_;
};

// Runs the config's reward models; what they run on is there once there is one.
class ModelRewards {
 public:
  explicit ModelRewards(const rewards::RewardSettings& settings) : settings_(settings) {}

  rewards::ModelRewardFactory factory() {
    return [this](const rewards::RewardEntry& entry) {
      if (!device_) device_ = open_device("auto");
      if (!pool_) pool_.emplace(available_cpus());
      const auto model = std::make_shared<infer::RewardModel>(entry, settings_.chat_template_kwargs, local_now());
      return infer::model_reward(model, std::make_shared<infer::RewardScorer>(model, *pool_, *device_),
                                 entry.reads_ids);
    };
  }

 private:
  const rewards::RewardSettings& settings_;
  std::shared_ptr<Device> device_;
  std::optional<ThreadPool> pool_;
};

Json number_or_null(double value) { return std::isnan(value) ? Json() : Json(value); }

void print_lines(std::span<const std::string> names, std::span<const rewards::RewardOutput> outputs,
                 std::span<const double> sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    Json said = Json::object(), extra = Json::object();
    for (size_t function = 0; function < outputs.size(); ++function) {
      const auto& reward = outputs[function].rewards[i];
      said[names[function]] = reward ? Json(*reward) : Json();
      for (const auto& [column, values] : outputs[function].extra.items()) extra[column] = values[i];
    }
    fmt::print("{}\n",
               json_text(Json{
                   {"rewards", std::move(said)}, {"reward", number_or_null(sums[i])}, {"extra", std::move(extra)}}));
  }
}

}  // namespace

int cmd_rewards(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(kRewardsCommand, args);
  if (!arguments) return kDone;
  if (!arguments->has("--lines") || !arguments->has("--json-lines"))
    throw input_error("spillway rewards", "expected --lines FILE.jsonl and --json-lines, got {}; give both",
                      arguments->has("--lines") || arguments->has("--json-lines") ? "one of them" : "neither");
  const config::Config config = load_config(*arguments, config::ConfigUse::kRewards).config;
  const rewards::RewardSettings& settings = *config.rewards;
  ModelRewards models(settings);
  rewards::RewardFunctions functions(settings, models.factory());
  const rewards::RewardInput input = LineReader(config.tokenizer).read(arguments->value("--lines"));
  if (input.size() == 0) return kDone;
  const std::vector<rewards::RewardOutput> outputs = functions.evaluate(input);
  print_lines(functions.names(), outputs, weighted_sum(table_of(outputs, input.size()), settings.weights));
  for (const rewards::RewardOutput& output : outputs) {
    for (const auto& [name, value] : output.metrics) log_info("{}: {}", name, value);
  }
  return kDone;
}

}  // namespace spillway
