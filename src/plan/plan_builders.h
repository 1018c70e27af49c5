// The builders of a graph's plans: the one that searches use, in which neighbouring experts are one value where there
// are many (plan/bundles.h), and the one that makes the plan itself.
#pragma once

#include <functional>
#include <optional>

#include "plan/plan_builder.h"
#include "plan/search.h"

namespace spillway {

class PlanBuilders {
 public:
  // Borrows the graph.
  PlanBuilders(const Graph& graph, const Machine& machine, const OwnFiles& own_files);

  [[nodiscard]] const PlanBuilder& of_search() const { return of_search_; }
  // Returns the builder of all values apart.
  [[nodiscard]] const PlanBuilder& whole() const { return whole_ ? *whole_ : of_search_; }

  using Search = std::function<Found(const PlanBuilder& builder, const Budget& budget)>;
  // Makes the plan that a search finds. What takes more than the budget when all values are apart is searched again
  // within less, then with all of them apart: that is slower, and knows what fits to the byte.
  [[nodiscard]] Plan plan_of(const Search& search, const Budget& budget) const;

 private:
  PlanBuilder of_search_;
  std::optional<PlanBuilder> whole_;
};

}  // namespace spillway
