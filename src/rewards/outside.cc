#include "rewards/outside.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/text.h"
#include "rewards/reward_script.h"

namespace spillway::rewards {
namespace {

constexpr std::string_view kWhere = "trl.reward_funcs";
// Reads the script as a line of JSON, and leaves the rest of the file to the script.
constexpr const char* kLoader =
    "import json, os; requests = os.fdopen(os.dup(0), 'rb'); "
    "exec(compile(json.loads(requests.readline()), 'reward_child.py', 'exec'))";

// The function that is asked, for messages.
struct Asked {
  std::string_view function;
  double timeout_seconds;
};

// Returns the next line of a child that owes one.
std::string next_line(ChildProcess& process, const Asked& asked) {
  using Outcome = ChildProcess::Outcome;
  ChildProcess::Read read = process.read_line(asked.timeout_seconds, kMostAnswerBytes);
  if (read.outcome == Outcome::kLine) return std::move(read.line);
  if (read.outcome == Outcome::kLate)
    throw input_error("trl.reward_timeout",
                      "expected an answer from {} within {} s, got none; raise the key or make it faster",
                      asked.function, asked.timeout_seconds);
  if (read.outcome == Outcome::kTooLong)
    throw input_error(kWhere, "expected an answer of at most {} MiB from {}, got more; log less",
                      kMostAnswerBytes >> 20, asked.function);
  const ChildProcess::End end = process.end();
  if (end.signal != 0)
    throw machine_error(kWhere,
                        "expected an answer from {}, got none: it {}; see what ended it, such as a lack of memory",
                        asked.function, end.text);
  throw input_error(kWhere, "expected an answer from {}, got none: it {}; see what it says above", asked.function,
                    end.text);
}

// Checks that there is no output before a request, which would be taken for the answer.
void check_silent(ChildProcess& process, std::string_view function) {
  if (process.has_output())
    throw input_error(kWhere,
                      "expected one line for each request from {}, got a line that nobody asked for; let it print to "
                      "standard error",
                      function);
}

RewardOutput output_of(Answer answer, std::string_view function, std::string_view where = kWhere) {
  if (answer.error.empty()) return std::move(answer.output);
  ChildProcess::show(function, answer.traceback);
  throw input_error(where, "{} raised {}{}; correct it{}", function, shown_line(answer.error),
                    answer.place.empty() ? "" : fmt::format(" ({})", shown_line(answer.place)),
                    answer.traceback.empty() ? "" : ", its traceback is above");
}

}  // namespace

std::string file_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

ProgramFunction::ProgramFunction(const RewardEntry& entry, double timeout_seconds)
    : name_(file_name(entry.command.front())),
      timeout_seconds_(timeout_seconds),
      process_(entry.command, entry.where.empty() ? kWhere : std::string_view(entry.where)) {
  process_.set_label(name_);
}

RewardOutput ProgramFunction::evaluate(const RewardInput& input) {
  check_silent(process_, name_);
  const int64_t id = ++calls_;
  process_.send(request_line(id, "", false, request_body(input)));
  const Json json = parse_line(next_line(process_, {name_, timeout_seconds_}), name_, kWhere);
  return output_of(read_answer(json, id, input.size(), name_, kWhere), name_);
}

PythonFunctions::PythonFunctions(std::vector<PythonFunction> functions, const RewardSettings& settings)
    : functions_(std::move(functions)),
      timeout_seconds_(settings.timeout_seconds),
      process_({settings.python, "-c", kLoader}, "trl.reward_python") {
  process_.set_label(functions_.size() == 1 ? functions_.front().key : "reward functions", true);
  say_hello(settings.python);
}

void PythonFunctions::say_hello(const std::string& python) {
  process_.send(json_text(Json(kRewardChild)) + "\n" + hello_line(functions_));
  const std::string line = next_line(process_, {python, timeout_seconds_});
  const auto error = parse_hello(line, "trl.reward_python");
  if (!error) return;
  const auto found = std::find_if(functions_.begin(), functions_.end(),
                                  [&](const PythonFunction& one) { return one.key == error->function; });
  const RewardEntry entry = found == functions_.end() ? RewardEntry{} : found->entry;
  const std::string_view where = entry.where.empty() ? kWhere : std::string_view(entry.where);
  const std::string said = shown_line(error->error);
  if (entry.kind == RewardEntry::Kind::kPython) {
    ChildProcess::show(error->function, error->traceback);
    throw input_error(where, "expected a Python function {}, got {}; correct the name, or start where its module is",
                      entry.name, said);
  }
  throw input_error(where, "expected the Python package math_verify for {}, got {}; run {} -m pip install math-verify",
                    entry.name, said, python);
}

RowFunction::RowFunction(std::string name, std::string where, Json cfg, const RewardSettings& settings)
    : name_(std::move(name)),
      where_(std::move(where)),
      cfg_(std::move(cfg)),
      timeout_seconds_(settings.timeout_seconds),
      process_({settings.python, "-c", kLoader}, "trl.reward_python") {
  process_.set_label(name_);
  const PythonFunction function{.key = name_, .entry = {.kind = RewardEntry::Kind::kPython, .name = name_}};
  process_.send(json_text(Json(kRewardChild)) + "\n" + hello_line({function}));
  const auto error = parse_hello(next_line(process_, {settings.python, timeout_seconds_}), "trl.reward_python");
  if (!error) return;
  ChildProcess::show(name_, error->traceback);
  throw input_error(where_,
                    "expected a Python function {} as type, got {}; correct the name, or start where its module "
                    "is",
                    name_, shown_line(error->error));
}

std::vector<Json> RowFunction::rows_of(std::vector<Json> records) {
  check_silent(process_, name_);
  const int64_t id = ++calls_;
  const size_t count = records.size();
  process_.send(
      json_text(Json{{"op", "rows"}, {"id", id}, {"function", name_}, {"cfg", cfg_}, {"rows", std::move(records)}}) +
      "\n");
  Json answer = parse_line(next_line(process_, {name_, timeout_seconds_}), name_, where_);
  if (const auto error = answer.find("error"); answer.is_object() && error != answer.end()) {
    const auto text = [&](const char* key) {
      return answer.value(key, Json()).is_string() ? answer[key].get<std::string>() : "";
    };
    output_of({.output = {}, .error = text("error"), .traceback = text("traceback"), .place = text("place")}, name_,
              where_);
  }
  const bool is_whole =
      answer.is_object() && answer.contains("rows") && answer["rows"].is_array() && answer["rows"].size() == count;
  if (!is_whole) throw input_error(where_, "expected {} rows of {}, got something else; correct it", count, name_);
  return answer["rows"].get<std::vector<Json>>();
}

std::vector<RewardOutput> PythonFunctions::evaluate(const RewardInput& input) {
  check_silent(process_, functions_.front().key);
  const std::string body = request_body(input);
  const int64_t first = calls_;
  const auto count = static_cast<int64_t>(functions_.size());
  for (int64_t i = 0; i < count; ++i)
    process_.send(request_line(first + i, nth(functions_, i).key, i + 1 < count, body));
  calls_ += count;
  std::vector<RewardOutput> outputs(functions_.size());
  std::set<int64_t> open;
  for (int64_t i = 0; i < count; ++i) open.insert(first + i);
  // Answers come in order, except for those of coroutines, which come last.
  while (!open.empty()) {
    const std::string& likely = nth(functions_, *open.begin() - first).key;
    const Json json = parse_line(next_line(process_, {likely, timeout_seconds_}), likely, kWhere);
    const auto said = json.is_object() ? json.find("id") : json.end();
    int64_t id = *open.begin();
    if (said != json.end() && said->is_number_integer() && open.contains(said->get<int64_t>()))
      id = said->get<int64_t>();
    const std::string& name = nth(functions_, id - first).key;
    nth(outputs, id - first) = output_of(read_answer(json, id, input.size(), name, kWhere), name);
    open.erase(id);
  }
  return outputs;
}

}  // namespace spillway::rewards
