// Graphs of decoders, to look at.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/builder.h"
#include "model/decoder/decoder.h"
#include "tests/support/golden_models.h"

namespace spillway::testing {

inline int64_t count_ops(const Graph& graph, std::string_view name) {
  int64_t count = 0;
  for (const Operation& op : graph.ops) count += op.def->name == name;
  return count;
}

// Forward of 16 tokens, in f32.
inline Graph graph_of_decoder(const DecoderConfig& config) {
  Graph graph;
  Builder builder(graph);
  (void)make_decoder(config)->build(builder, {.tokens = 16});
  return graph;
}

// Returns the graph of a model in tests/golden/models.
inline Graph graph_of_tiny(std::string_view model) {
  return graph_of_decoder(read_decoder_config(kGoldenModels / model));
}

}  // namespace spillway::testing
