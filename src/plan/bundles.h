// Joins the weights of experts that move together, and what is made of them, so that a search schedules a few of them
// as one.
//
// Each expert of a mixture is a value of its own, with transfers, gradients and updates of its own. They are alike, and
// an operation reads many of them: what a plan costs hardly depends on whether eight of them come by eight copies or by
// one. So a search looks at plans in which neighbours are one value, and its result is then made with all of them
// (plan/plan_builders.h).
#pragma once

#include <utility>
#include <vector>

#include "plan/facts.h"

namespace spillway {

struct JoinedFacts {
  GraphFacts facts;
  int64_t left_out = 0;  // values and operations that others stand for
  // The operations that others stand for, behind the one that does.
  std::vector<std::pair<OpId, OpId>> joined_ops;
};

// Where experts stream (kExpertPart), joins weights of one group that follow each other among the inputs which an
// operation reads under a condition (OpDef::guard): the first stands for all (ValueFacts::parts). No bundle takes more
// than a sixteenth of its group, so that what fits is known nearly as well as with all values apart. Of weights that
// train, operations of the backward pass and the update that do the same with each are joined as well, with what they
// read and write.
[[nodiscard]] JoinedFacts join_experts(const Graph& graph, const OwnFiles& own_files, const GraphFacts& facts);

}  // namespace spillway
