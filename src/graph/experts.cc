#include "graph/experts.h"

#include <algorithm>

#include "base/index.h"

namespace spillway {

bool is_of_expert(const Graph& graph, ValueId value) {
  const GroupId group = value == kNone ? kNone : graph.value(value).group;
  return group != kNone && nth(graph.groups, group).part == kExpertPart;
}

ValueId first_expert(const Graph& graph, const Operation& op) {
  const auto found =
      std::find_if(op.inputs.begin(), op.inputs.end(), [&](ValueId input) { return is_of_expert(graph, input); });
  return found == op.inputs.end() ? kNone : *found;
}

}  // namespace spillway
