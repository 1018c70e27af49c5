#include "rewards/protocol.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace spillway::rewards {
namespace {

constexpr int kVersion = 1;

// Returns a part of a JSON value, for a message.
std::string shown(const Json& json) {
  if (json.is_string()) return shown_line(json.get_ref<const std::string&>().substr(0, 100));
  return quote(json_text(json));
}

Json arguments_of(const RewardEntry& entry) {
  Json result = Json::object();
  for (const RewardArgument& argument : entry.arguments)
    std::visit([&](const auto& value) { result[argument.name] = value; }, argument.value);
  return result;
}

// Reads one answer of the function that it is made for.
class AnswerReader {
 public:
  AnswerReader(int64_t completions, std::string_view function, std::string_view where)
      : completions_(static_cast<size_t>(completions)), function_(function), where_(where) {}

  [[nodiscard]] InputError bad(std::string_view expected, std::string_view got, std::string_view advice) const {
    return input_error(where_, "expected {} from {}, got {}; {}", expected, function_, got, advice);
  }

  [[nodiscard]] Json parse(std::string_view line) const {
    auto json = parse_json<Json>(line, where_);
    if (json.is_discarded())
      throw bad("a line of JSON", line.empty() ? "an empty line" : quote(line),
                "its standard output is for answers alone: let it print to standard error");
    return json;
  }

  void read_rewards(const Json& list, RewardOutput& output) const {
    if (!list.is_array()) throw bad("a list of rewards", shown(list), "return one");
    if (list.size() != completions_)
      throw bad(fmt::format("{} rewards", completions_), std::to_string(list.size()),
                "return a number or None for each completion");
    for (const Json& item : list) output.rewards.push_back(read_reward(item, output.rewards.size()));
  }

  void read_extra(const Json& columns, RewardOutput& output) const {
    if (!columns.is_object()) throw bad("an object as extra", shown(columns), "correct it");
    for (const auto& [name, values] : columns.items()) {
      if (!values.is_array() || values.size() != completions_)
        throw bad(fmt::format("{} values of the extra column {}", completions_, quote(name)),
                  values.is_array() ? std::to_string(values.size()) : shown(values), "give one for each completion");
    }
    output.extra = columns;
  }

  void read_metrics(const Json& metrics, RewardOutput& output) const {
    if (!metrics.is_object()) throw bad("an object as metrics", shown(metrics), "correct it");
    for (const auto& [name, value] : metrics.items()) {
      if (value.is_null()) continue;
      if (!value.is_number())
        throw bad(fmt::format("a number as the metric {}", quote(name)), shown(value), "correct it");
      output.metrics.emplace_back(name, value.get<double>());
    }
  }

 private:
  [[nodiscard]] std::optional<double> read_reward(const Json& item, size_t index) const {
    if (item.is_null()) return {};
    const double value = item.is_number() ? item.get<double>() : std::numeric_limits<double>::infinity();
    // Rewards are f32 from here on, as in TRL.
    if (std::isfinite(static_cast<float>(value))) return value;
    throw bad("a finite number or None",
              fmt::format("{} for completion {} of {}", shown(item), index + 1, completions_), "correct the function");
  }

  size_t completions_;
  std::string_view function_, where_;
};

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the text of an error, never empty if there is one.
std::string error_at(const Json& json) {
  const auto found = json.find("error");
  if (found == json.end() || found->is_null()) return "";
  const std::string text = found->is_string() ? found->get<std::string>() : json_text(*found);
  return text.empty() ? "an error without a text" : text;
}

}  // namespace

std::string hello_line(const std::vector<PythonFunction>& functions) {
  Json list = Json::array();
  for (const auto& [key, entry] : functions) {
    if (entry.kind == RewardEntry::Kind::kPython) {
      list.push_back(key);
    } else {
      list.push_back({{"function", key}, {"make", entry.name}, {"arguments", arguments_of(entry)}});
    }
  }
  return json_text(Json{{"op", "hello"}, {"version", kVersion}, {"functions", std::move(list)}}) + "\n";
}

std::optional<HelloError> parse_hello(std::string_view line, std::string_view where) {
  const AnswerReader reader(0, "Python", where);
  const Json json = reader.parse(line);
  if (!json.is_object()) throw reader.bad("an object", shown(json), "see that trl.reward_python names Python 3");
  if (const std::string error = error_at(json); !error.empty())
    return HelloError{text_at(json, "function"), error, text_at(json, "traceback")};
  if (json.value("ok", Json()) != true)
    throw reader.bad("an answer", shown(json), "see that trl.reward_python names Python 3");
  return {};
}

std::string request_body(const RewardInput& input) {
  const TrainerState& state = input.state;
  const Json body = {{"prompts", input.prompts},
                     {"completions", input.completions},
                     {"completion_ids", input.completion_ids},
                     {"columns", input.columns},
                     {"trainer_state",
                      {{"global_step", state.global_step},
                       {"max_steps", state.max_steps},
                       {"epoch", state.epoch},
                       {"num_train_epochs", state.num_train_epochs},
                       {"num_input_tokens_seen", state.num_input_tokens_seen}}}};
  return json_text(body);
}

std::string request_line(int64_t id, std::string_view function, bool more, std::string_view body) {
  Json head = {{"op", "rewards"}, {"id", id}};
  if (!function.empty()) head["function"] = function;
  if (more) head["more"] = true;
  std::string line = json_text(head);
  line.back() = ',';
  line.append(body.substr(1));
  line.push_back('\n');
  return line;
}

Json parse_line(std::string_view line, std::string_view function, std::string_view where) {
  return AnswerReader(0, function, where).parse(line);
}

Answer read_answer(const Json& json, int64_t id, int64_t completions, std::string_view function,
                   std::string_view where) {
  const AnswerReader reader(completions, function, where);
  Answer answer;
  if (json.is_array()) {
    reader.read_rewards(json, answer.output);
    return answer;
  }
  if (!json.is_object()) throw reader.bad("an object with rewards", shown(json), "correct the answer");
  const auto member = [&](const char* key) {
    const auto found = json.find(key);
    return found == json.end() ? Json() : *found;
  };
  if (const Json said = member("id"); !said.is_null() && said != id)
    throw reader.bad(fmt::format("the answer to request {}", id), fmt::format("one to {}", shown(said)),
                     "answer each request once, in order");
  answer.error = error_at(json);
  if (!answer.error.empty()) {
    answer.traceback = text_at(json, "traceback");
    answer.place = text_at(json, "place");
    return answer;
  }
  if (!json.contains("rewards")) throw reader.bad("an object with rewards", shown(json), "correct the answer");
  reader.read_rewards(member("rewards"), answer.output);
  if (const Json extra = member("extra"); !extra.is_null()) reader.read_extra(extra, answer.output);
  if (const Json metrics = member("metrics"); !metrics.is_null()) reader.read_metrics(metrics, answer.output);
  return answer;
}

}  // namespace spillway::rewards
