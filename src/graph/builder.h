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
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/operation.h"

namespace spillway {

class Builder {
 public:
  // Operations go to the section `first`, until another begins.
  explicit Builder(Graph& graph, Section first = forward_section()) : graph_(graph) { begin_section(std::move(first)); }

  // Takes over the blocks of another graph of the same job and its persistent values, in their order, so that both
  // may have them in the same places. REQUIRES: this graph is empty.
  void adopt(const Graph& other);

  // A weight, a state or a batch value. A weight belongs to the block that is open. A name that is there already gives
  // its value, so that several passes read the same weights. REQUIRES: it has that type.
  ValueId input(std::string name, const ValueType& type, ValueKind kind);

  // Appends an operation to the last section, in the block of the moment; types come from def.infer. Outputs are named
  // "<op>.<number>" with "/<index>" where there are several. Returns the outputs.
  std::vector<ValueId> append(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes = {});
  // The same for an operation of one output.
  ValueId append_one(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes = {});

  // Declares `next` the next version of the persistent value `value`: it takes its place.
  void update(ValueId value, ValueId next);
  void result(ValueId value) { graph_.results.push_back(value); }

  // Of a name that is there already: goes on with that block.
  BlockId begin_block(std::string name);
  void end_block() { block_ = kNone; }
  void set_block(BlockId block) { block_ = block; }
  SectionId begin_section(Section section);

  // Of a name that is there already: that axis. REQUIRES: it has that capacity.
  AxisId add_axis(std::string name, int64_t capacity);

  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] const ValueType& type(ValueId id) const { return graph_.value(id).type; }

 private:
  Graph& graph_;
  std::map<std::string, ValueId> inputs_;
  std::map<std::string, BlockId> blocks_;
  BlockId block_ = kNone;
};

// What was said by value of `first`, by value of a graph that adopted it: false for values of its own. Nothing of
// nothing.
[[nodiscard]] std::vector<bool> adopted_flags(const std::vector<bool>& by_value, const Graph& first,
                                              const Graph& graph);

}  // namespace spillway
