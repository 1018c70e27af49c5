// Appends values and operations to a Graph.
//
//   Builder b(graph);
//   ValueId x = b.input("tokens.hidden", type, ValueKind::kBatch);
//   b.begin_block("layer 0");
//   ValueId y = ops::rms_norm(b, x, weight, 1e-5);
//   b.end_block();
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/operation.h"

namespace spillway {

class Builder {
 public:
  // Starts in section `first`: operations go there until another section begins.
  explicit Builder(Graph& graph, Section first = forward_section()) : graph_(graph) { begin_section(std::move(first)); }

  // Copies the blocks and groups of another graph of the same job and its persistent values, in their order, so that
  // both graphs may have them in the same places. REQUIRES: this graph is empty.
  void adopt(const Graph& other);

  // Adds a weight, a state or a batch value. A weight belongs to the block that is open, and to its group of that kind
  // and part. Returns the existing value if the name is taken, so that several passes read the same weights. REQUIRES:
  // an existing value has that type.
  ValueId input(std::string name, const ValueType& type, ValueKind kind, std::string_view part = {});

  // Appends an operation to the last section, in the current block; types come from def.infer. Outputs are named
  // "<op>.<number>", followed by "/<index>" if there are several. Returns the outputs.
  std::vector<ValueId> append(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes = {});
  // Appends an operation that has one output, and returns that.
  ValueId append_one(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes = {});

  // Returns the group of that kind, block and part; adds it if there is none.
  GroupId group(ValueKind kind, BlockId block, std::string_view part = {});

  // Declares `next` the next version of the persistent value `value`, whose place it takes.
  void update(ValueId value, ValueId next);
  void result(ValueId value) { graph_.results.push_back(value); }
  // Declares a persistent value a part, of which every rank has another one.
  void split(ValueId value) { graph_.value(value).split = true; }

  // Opens the block of that name, or reopens it if it exists.
  BlockId begin_block(std::string name);
  void end_block() { block_ = kNone; }
  void set_block(BlockId block) { block_ = block; }
  SectionId begin_section(Section section);

  // Adds an axis, or returns the existing one of that name. REQUIRES: an existing axis has that capacity.
  AxisId add_axis(Axis axis);

  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] const ValueType& type(ValueId id) const { return graph_.value(id).type; }

 private:
  Graph& graph_;
  std::map<std::string, ValueId> inputs_;
  std::map<std::string, BlockId> blocks_;
  BlockId block_ = kNone;
};

// Carries flags by value of `first` over to `graph`, which adopted it: values that `graph` added are false. Empty for
// an empty `by_value`.
[[nodiscard]] std::vector<bool> adopted_flags(const std::vector<bool>& by_value, const Graph& first,
                                              const Graph& graph);

}  // namespace spillway
