#include "rewards/builtin.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace spillway::rewards {
namespace {

using Kind = BuiltinArgument::Kind;

const RewardArgument* find_argument(const RewardEntry& entry, std::string_view name) {
  const auto found = std::find_if(entry.arguments.begin(), entry.arguments.end(),
                                  [&](const RewardArgument& one) { return one.name == name; });
  return found == entry.arguments.end() ? nullptr : &*found;
}

const BuiltinArgument& find_declared(const RewardEntry& entry, const Builtin& builtin, std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltinArgument& one : builtin.arguments) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  if (names.empty())
    throw input_error(entry.where, "expected {} without arguments, got {}; remove it", builtin.name, quote(name));
  throw input_error(entry.where, "expected an argument of {} ({}), got {}; correct it", builtin.name,
                    joined_names(names), quote(name));
}

void check_value(const RewardEntry& entry, const BuiltinArgument& declared, const RewardArgument& said) {
  if (declared.kind == Kind::kTexts) {
    if (std::holds_alternative<std::vector<std::string>>(said.value)) return;
    throw input_error(entry.where, "expected a list of texts for {}, got a number; write [TEXT]", said.name);
  }
  const double* number = std::get_if<double>(&said.value);
  const std::string_view kind = declared.kind == Kind::kInteger ? "an integer" : "a number";
  if (number == nullptr) throw input_error(entry.where, "expected {} for {}, got text; change it", kind, said.name);
  const bool fits = declared.kind != Kind::kInteger || *number == std::floor(*number);
  if (fits && *number >= declared.least && *number <= declared.most) return;
  throw input_error(entry.where, "expected {} from {} to {} for {}, got {}; change it", kind, declared.least,
                    declared.most, said.name, *number);
}

// A function that scores one completion at a time.
template <typename Score>
class ByCompletion final : public RewardFunction {
 public:
  explicit ByCompletion(Score score) : score_(std::move(score)) {}

  RewardOutput evaluate(const RewardInput& input) override {
    RewardOutput output;
    for (int64_t i = 0; i < input.size(); ++i) output.rewards.emplace_back(score_(input, static_cast<size_t>(i)));
    return output;
  }

 private:
  Score score_;
};

template <typename Score>
std::unique_ptr<RewardFunction> by_completion(Score score) {
  return std::make_unique<ByCompletion<Score>>(std::move(score));
}

double think_format(std::string_view text) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  if (!text.starts_with(kBegin)) return 0;
  const std::string_view rest = text.substr(kBegin.size());
  return rest.find(kBegin) == std::string_view::npos && rest.find(kEnd) != std::string_view::npos ? 1 : 0;
}

double soft_overlong(double tokens, double longest, double cache) {
  if (tokens <= longest - cache) return 0;
  return tokens <= longest ? (longest - cache - tokens) / cache : -1;
}

double repetition_penalty(std::span<const int32_t> ids, size_t ngram_size, double max_penalty) {
  if (ids.size() < ngram_size) return 0;
  const size_t count = ids.size() - ngram_size + 1;
  const auto less = [&](size_t a, size_t b) {
    return std::lexicographical_compare(&ids[a], &ids[a] + ngram_size, &ids[b], &ids[b] + ngram_size);
  };
  std::set<size_t, decltype(less)> distinct(less);
  for (size_t i = 0; i < count; ++i) distinct.insert(i);
  const double repeated = 1 - static_cast<double>(distinct.size()) / static_cast<double>(count);
  return repeated == 0 ? 0 : repeated * max_penalty;
}

}  // namespace

std::span<const Builtin> builtins() {
  static const std::vector<Builtin> kBuiltins = {
      {"think_format_reward", "think_format_reward", {}},
      {"get_soft_overlong_punishment",
       "soft_overlong_punishment_reward",
       {{.name = "max_completion_len", .kind = Kind::kInteger, .otherwise = 1280, .least = 0},
        {.name = "soft_punish_cache", .kind = Kind::kInteger, .otherwise = 256, .least = 0}}},
      {"get_repetition_penalty_reward",
       "repetition_penalty_reward",
       {{.name = "ngram_size", .kind = Kind::kInteger, .otherwise = 3, .least = 1},
        {.name = "max_penalty", .otherwise = -1, .most = 0}}},
      {"accuracy_reward", "accuracy_reward", {}, true},
      {"reasoning_accuracy_reward",
       "reasoning_accuracy_reward",
       {{.name = "reasoning_delimiters", .kind = Kind::kTexts}},
       true},
      {"get_cosine_scaled_reward",
       "cosine_scaled_reward",
       {{.name = "max_len", .kind = Kind::kInteger, .is_required = true, .least = 1},
        {.name = "min_value_wrong", .otherwise = -1},
        {.name = "max_value_wrong", .otherwise = -0.5},
        {.name = "min_value_correct", .otherwise = 0.5},
        {.name = "max_value_correct", .otherwise = 1}},
       true},
  };
  return kBuiltins;
}

const Builtin* find_builtin(std::string_view name) {
  const auto all = builtins();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Builtin& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

void check_arguments(const RewardEntry& entry) {
  const Builtin* builtin = find_builtin(entry.name);
  SPILLWAY_CHECK(builtin != nullptr, "{}", entry.name);
  for (const RewardArgument& said : entry.arguments)
    check_value(entry, find_declared(entry, *builtin, said.name), said);
  for (const BuiltinArgument& declared : builtin->arguments) {
    if (declared.is_required && find_argument(entry, declared.name) == nullptr) {
      throw input_error(entry.where, "expected {} beside {}, got nothing; write {{name: {}, {}: NUMBER}}",
                        declared.name, entry.name, entry.name, declared.name);
    }
  }
}

double number_argument(const RewardEntry& entry, std::string_view name) {
  if (const RewardArgument* said = find_argument(entry, name)) return std::get<double>(said->value);
  return find_declared(entry, *find_builtin(entry.name), name).otherwise;
}

const std::string& text_of(const Json& completion) {
  if (completion.is_string()) return completion.get_ref<const std::string&>();
  if (completion.is_array() && !completion.empty() && completion[0].is_object()) {
    const auto content = completion[0].find("content");
    if (content != completion[0].end() && content->is_string()) return content->get_ref<const std::string&>();
  }
  throw input_error("completions", "expected a text or a list of messages with texts, got something else; correct it");
}

std::unique_ptr<RewardFunction> make_builtin(const RewardEntry& entry) {
  if (entry.name == "think_format_reward")
    return by_completion(
        [](const RewardInput& input, size_t i) { return think_format(text_of(input.completions[i])); });
  if (entry.name == "get_soft_overlong_punishment") {
    const double longest = number_argument(entry, "max_completion_len");
    const double cache = number_argument(entry, "soft_punish_cache");
    return by_completion([=](const RewardInput& input, size_t i) {
      return soft_overlong(static_cast<double>(input.completion_ids[i].size()), longest, cache);
    });
  }
  SPILLWAY_CHECK(entry.name == "get_repetition_penalty_reward", "{}", entry.name);
  const auto ngram_size = static_cast<size_t>(number_argument(entry, "ngram_size"));
  const double max_penalty = number_argument(entry, "max_penalty");
  return by_completion([=](const RewardInput& input, size_t i) {
    return repetition_penalty(input.completion_ids[i], ngram_size, max_penalty);
  });
}

}  // namespace spillway::rewards
