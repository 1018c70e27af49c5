#include "graph/experts.h"

#include <algorithm>

#include "base/index.h"

namespace spillway {

ValueId first_expert(const Graph& graph, const Operation& op) {
  const auto found = std::find_if(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
    const GroupId group = input == kNone ? kNone : graph.value(input).group;
    return group != kNone && nth(graph.groups, group).part == kExpertPart;
  });
  return found == op.inputs.end() ? kNone : *found;
}

}  // namespace spillway
