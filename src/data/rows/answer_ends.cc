#include "data/rows/answer_ends.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/index.h"
#include "data/rows/preference_rows.h"

namespace spillway::data {
namespace {

class EndsAdded : public RowBuilder {
 public:
  EndsAdded(std::unique_ptr<RowBuilder> builder, Objective objective, const text::Tokenizer& tokenizer)
      : builder_(std::move(builder)), objective_(objective), ends_(tokenizer) {}

  void build(const Record& record, std::vector<Row>& rows) const override {
    const auto first = static_cast<std::ptrdiff_t>(rows.size());
    builder_->build(record, rows);
    for (auto row = rows.begin() + first; row != rows.end(); ++row) {
      if (row->ends.has_answer) continue;
      row->ends = has_completions(objective_) ? of_completion(preference_of(*row, objective_)) : of_labels(*row);
    }
  }

 private:
  [[nodiscard]] RowEnds of_completion(const PreferenceRow& row) const {
    if (row.completions.front().empty()) return {};
    return {.has_answer = true, .ids = ends_.closing_ends(row.completions.front())};
  }

  // A row that is learned from its first token to its last target is a text rather than an answer.
  [[nodiscard]] RowEnds of_labels(const Row& row) const {
    const std::span<const int32_t> labels = row.labels;
    auto end = std::ssize(labels);
    while (end > 1 && nth(labels, end - 1) == kIgnoredLabel) --end;
    if (end <= 1) return {};
    if (std::find(labels.begin(), labels.begin() + end, kIgnoredLabel) == labels.begin() + end) return {};
    const auto closing = ends_.closing_ends(std::span(row.input_ids).first(static_cast<size_t>(end)));
    return {.has_answer = true, .ids = ends_.learned(row.labels, closing)};
  }

  std::unique_ptr<RowBuilder> builder_;
  Objective objective_;
  AnswerEnds ends_;
};

}  // namespace

bool is_answering_role(std::string_view role) {
  constexpr std::array<std::string_view, 7> kOthers = {"user", "human",    "system",     "developer",
                                                       "tool", "function", "environment"};
  return std::find(kOthers.begin(), kOthers.end(), role) == kOthers.end();
}

AnswerEnds::AnswerEnds(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  const std::vector<int32_t> stops = tokenizer.stop_ids();
  stops_.insert(stops.begin(), stops.end());
  for (const auto& token : tokenizer.added_tokens()) {
    const auto id = token["id"].get<int32_t>();
    if (!is_blank(id)) added_.insert(id);  // some tokenizers have added runs of spaces
  }
}

bool AnswerEnds::is_blank(int32_t id) const {
  const std::string text = tokenizer_.decode(std::span(&id, 1), false);
  return text.find_first_not_of(" \t\n\r") == std::string::npos;
}

std::optional<int64_t> AnswerEnds::mark_behind(std::span<const int32_t> ids, int64_t from) const {
  for (int64_t at = from; at < std::ssize(ids); ++at) {
    if (is_mark(nth(ids, at))) return at;
    if (!is_blank(nth(ids, at))) break;
  }
  return {};
}

std::vector<int32_t> AnswerEnds::closing_marks(std::span<const int32_t> ids) const {
  std::vector<int32_t> marks;
  for (int64_t at = std::ssize(ids) - 1; at >= 0; --at) {
    const int32_t id = nth(ids, at);
    if (is_mark(id)) {
      marks.push_back(id);
    } else if (!is_blank(id)) {
      break;
    }
  }
  std::reverse(marks.begin(), marks.end());
  return marks;
}

std::vector<int32_t> AnswerEnds::closing_ends(std::span<const int32_t> ids) const {
  const std::vector<int32_t> marks = closing_marks(ids);
  std::vector<int32_t> ends;
  for (const int32_t id : marks) {
    if (stops(id) && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  if (ends.empty() && !marks.empty()) ends.push_back(marks.back());
  return ends;
}

std::vector<int32_t> AnswerEnds::learned(std::span<const int32_t> labels, std::span<const int32_t> ends) const {
  std::set<int32_t> found;
  for (const int32_t label : labels.subspan(std::min<size_t>(1, labels.size()))) {
    if (label != kIgnoredLabel && (stops(label) || std::find(ends.begin(), ends.end(), label) != ends.end()))
      found.insert(label);
  }
  return {found.begin(), found.end()};
}

std::unique_ptr<RowBuilder> with_answer_ends(std::unique_ptr<RowBuilder> builder, Objective objective,
                                             const text::Tokenizer& tokenizer) {
  return std::make_unique<EndsAdded>(std::move(builder), objective, tokenizer);
}

}  // namespace spillway::data
