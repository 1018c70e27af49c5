#include "objectives/objective.h"

#include <algorithm>

#include "base/error.h"

namespace spillway::train {

ValueType i32_per_token(const Graph& graph, const ModelGraph&) { return {DType::kI32, {graph.tokens()}, kTokenAxis}; }
ValueType f32_per_token(const Graph& graph, const ModelGraph&) { return {DType::kF32, {graph.tokens()}, kTokenAxis}; }
ValueType f32_per_row(const Graph& graph, const ModelGraph&) {
  return {DType::kF32, {graph.axis(kRowAxis).capacity}, kRowAxis};
}

ValueId ObjectiveInputs::column(std::string_view name) const {
  const int stream = model_.columns.front().stream;
  for (const auto& list : {columns_, std::span<const BatchColumn>(model_.columns)}) {
    for (const BatchColumn& c : list)
      if (c.column.name == name && c.stream == stream) return c.value;
  }
  report_bug(__FILE__, __LINE__, "column", std::string(name));
}

ValueId ObjectiveInputs::score(std::string_view name) const {
  const auto found = std::find_if(scores_.begin(), scores_.end(), [&](const auto& one) { return one.first == name; });
  SPILLWAY_CHECK(found != scores_.end(), "no pass scores {}", name);
  return found->second;
}

void Objective::fill(std::span<data::MicroBatch>, const data::RowTable&, std::span<const data::Piece>) const {
  report_bug(__FILE__, __LINE__, "fill", "the completions are not of the data");
}

std::vector<ValueId> Objective::append_scores(Builder&, const ScorePass&, const ObjectiveInputs&) const { return {}; }

}  // namespace spillway::train
