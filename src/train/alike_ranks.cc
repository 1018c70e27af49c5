#include "train/alike_ranks.h"

#include <span>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"

namespace spillway::train {

void check_alike(Ranks& ranks, const nlohmann::ordered_json& facts) {
  if (!ranks.are_several()) return;
  const std::span<const std::string> texts = ranks.exchange([&] { return json_text(facts); });
  const auto first = nlohmann::ordered_json::parse(texts.front());
  const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  std::string where, expected, got;
  for (int rank = 1; rank < ranks.size() && where.empty(); ++rank) {
    const auto other = nlohmann::ordered_json::parse(nth(texts, rank));
    for (const auto& [key, value] : first.items()) {
      if (other.contains(key) && other[key] == value) continue;
      where = fmt::format("{}: {}", ranks.name_of(rank), key);
      expected = shown(value.get<std::string>());
      got = shown(other.value(key, ""));
      break;
    }
  }
  ranks.agree([&] {
    if (where.empty()) return;
    throw input_error(where,
                      "expected {}, as rank 0 has it, got {}; give all ranks the same program, config, budgets, data "
                      "and model",
                      expected, got);
  });
}

}  // namespace spillway::train
