#include "plan/testing/random_program.h"

#include <algorithm>
#include <array>
#include <span>

#include "backend/kernel.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "graph/autodiff.h"
#include "graph/operation.h"
#include "graph/repeat_by_block.h"
#include "plan/testing/mixed_bytes.h"

namespace spillway::testing {
namespace {

ValueType type_of_bytes(int64_t bytes) { return {DType::kU8, {bytes}}; }

std::vector<ValueType> infer_mix(TypeList, const Attributes& attributes) {
  std::vector<ValueType> outputs = {type_of_bytes(attributes.integer("bytes"))};
  if (attributes.integer("second") > 0) outputs.push_back(type_of_bytes(attributes.integer("second")));
  return outputs;
}
Cost cost_mix(TypeList, TypeList outputs, const Attributes&) {
  return {.bytes = static_cast<double>(outputs[0]->bytes())};
}
int64_t workspace_mix(TypeList, TypeList, const Attributes& attributes, int) { return attributes.integer("workspace"); }
void vjp_mix(VjpContext& context);

// Does what the interpreter does, on memory that the caller has resolved.
void run_mix(const KernelArgs& args) {
  std::array<uint64_t, 16> hashes;
  size_t count = 0;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const TensorView& input = args.inputs[i];
    if (input.data && is_read(args.attributes, i, args.inputs[std::min<size_t>(i, kOffsets)].as<uint8_t>()))
      hashes[count++] = hash_bytes(input.as<uint8_t>(), input.bytes(), 0);
  }
  const int64_t workspace = args.attributes.integer("workspace");
  if (workspace > 0) fill_memory(args.workspace, 0xA5, workspace);
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    const TensorView& output = args.outputs[i];
    const OpId op = static_cast<OpId>(args.attributes.integer("op"));
    fill_value({output.dtype, output.shape}, output.as<uint8_t>(), output_seed(op, i, {hashes.data(), count}));
  }
}

// An operation with any inputs and one or two outputs; the first output may take the first input's place.
const OpDef kMix = {.name = "mix",
                    .infer = infer_mix,
                    .vjp = vjp_mix,
                    .cost = cost_mix,
                    .workspace_bytes = workspace_mix,
                    .in_place = {{0, 0}},
                    .cpu = run_mix};
// Makes offsets of experts.
const OpDef kRoute = {.name = "route",
                      .infer = [](TypeList, const Attributes& attributes) -> std::vector<ValueType> {
                        return {{DType::kI32, {attributes.integer("bytes") / 4}}};
                      },
                      .stops_gradients = true,
                      .cost = cost_mix,
                      .cpu = run_mix};
std::optional<Guard> guard_of_mix(TypeList, const Attributes&, int input) {
  if (input < static_cast<int>(kFirstExpert)) return std::nullopt;
  return Guard{.offsets = kOffsets, .index = input - static_cast<int>(kFirstExpert), .chance = 0.5};
}
// Mixes a value with those experts that have rows.
const OpDef kExperts = {
    .name = "experts", .infer = infer_mix, .vjp = vjp_mix, .cost = cost_mix, .guard = guard_of_mix, .cpu = run_mix};
// The same without a gradient, for the backward and update sections; its addend may be added into.
const OpDef kGrad = {.name = "grad",
                     .infer = infer_mix,
                     .cost = cost_mix,
                     .workspace_bytes = workspace_mix,
                     .in_place = {{0, 0}, {0, 1}},
                     .cpu = run_mix};

// The same on all ranks together. Here it is only planned, and interpreted on one.
const OpDef kTogether = {.name = "together",
                         .infer = infer_mix,
                         .cost = cost_mix,
                         .in_place = {{0, 0}},
                         .collective = [](const CollectiveArgs&) {}};

// Begins a sum of gradients.
const OpDef kZeros = {.name = "zeros", .infer = infer_mix, .cost = cost_mix, .cpu = run_mix};

Operation zeros_of(const ValueType& type) {
  return {.def = &kZeros,
          .attributes = {{"op", int64_t{0}},
                         {"bytes", type.bytes()},
                         {"second", int64_t{0}},
                         {"workspace", int64_t{0}},
                         {"experts", int64_t{0}}}};
}

// Makes the graph compute a group of micro-batches. The sums that the last one leaves become the weights' gradients.
void repeat_micro_batches(Graph& graph, const RandomGraphOptions& options, std::vector<WeightGradient>& weights) {
  const RepeatedValues repeated =
      repeat_by_block(graph, options.micro_batches, options.whole_step ? zeros_of : nullptr);
  for (WeightGradient& w : weights) w.gradient = repeated.of(w.gradient, options.micro_batches - 1);
  for (OpId id = 0; id < std::ssize(graph.ops); ++id) (void)nth(graph.ops, id).attributes.set("op", int64_t{id});
}

// Returns the attributes of the next operation: its id, the bytes of its outputs and its workspace, and how many of its
// inputs are experts.
Attributes next_attributes(Builder& b, int64_t bytes, int64_t workspace = 0, int64_t second = 0, int64_t inputs = 0,
                           int64_t experts = 0) {
  return {{"op", std::ssize(b.graph().ops)}, {"bytes", bytes},   {"second", second},
          {"workspace", workspace},          {"inputs", inputs}, {"experts", experts}};
}

ValueId sum(Builder& b, ValueId x, ValueId y) {
  return b.append_one(kGrad, {x, y}, next_attributes(b, b.type(x).bytes()));
}

// The cotangent of each input mixes those of the outputs, the input itself and, for the first, the first output.
void vjp_mix(VjpContext& context) {
  const Attributes attributes = context.attributes();
  for (int i = 0; i < attributes.integer("inputs"); ++i) {
    if (!context.wants(i)) continue;
    std::vector<ValueId> reads = {context.take_addend(i)};
    if (reads[0] == kNone) reads.clear();
    reads.push_back(context.input(i));
    if (i == 0) reads.push_back(context.output(0));
    if (context.cotangent(0) != kNone) reads.push_back(context.cotangent(0));
    Builder& b = context.builder();
    const int64_t workspace = attributes.integer("workspace");
    context.add(i, b.append_one(kGrad, reads, next_attributes(b, context.input_type(i).bytes(), workspace)));
  }
}

// Appends a router of a block and an operation with its experts, which are frozen.
ValueId append_experts(Builder& b, ValueId x, int block, const RandomGraphOptions& options, RandomStream& random) {
  std::vector<ValueId> reads = {x, b.append_one(kRoute, {x}, next_attributes(b, 4 * (options.experts + 1)))};
  for (int expert = 0; expert < options.experts; ++expert) {
    const int64_t bytes = int64_t{1} + random.below(options.max_bytes);
    reads.push_back(b.input(fmt::format("expert.{}.{}", block, expert), type_of_bytes(bytes), ValueKind::kFrozenWeight,
                            kExpertPart));
  }
  const Attributes attributes = next_attributes(b, b.type(x).bytes(), 0, 0, std::ssize(reads), options.experts);
  return b.append_one(kExperts, reads, attributes);
}

}  // namespace

void fill_initial(ValueId id, int micro_step, std::span<uint8_t> bytes) {
  fill_bytes(bytes.data(), std::ssize(bytes), initial_seed(id, micro_step));
}

uint64_t outcome_of(std::span<const uint8_t> bytes) { return hash_bytes(bytes.data(), std::ssize(bytes), 0); }

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  RandomStream random(seed, 0);
  const auto random_bytes = [&] { return int64_t{1} + random.below(options.max_bytes); };
  Graph graph{.name = "random"};
  Builder b(graph);
  ValueId x = b.input("batch", type_of_bytes(random_bytes()), ValueKind::kBatch);
  std::vector<WeightGradient> weights;
  for (int block = 0; block < options.blocks; ++block) {
    b.begin_block("block " + std::to_string(block));
    std::vector<ValueId> local = {x};
    for (int w = 0; w < options.weights; ++w) {
      const ValueType type = type_of_bytes(random_bytes());
      const std::string name = fmt::format("weight.{}.{}", block, w);
      if (random.below(4) == 0) {
        local.push_back(b.input(name, type, ValueKind::kFrozenWeight));
        continue;
      }
      const ValueId weight = b.input(name, type, ValueKind::kTrainableWeight);
      const bool accumulates = random.below(2) == 0;
      const ValueId accumulator = accumulates ? b.input("gradient." + name, type, ValueKind::kGradient) : kNone;
      weights.push_back({.weight = weight, .dtype = DType::kU8, .accumulator = accumulator});
      local.push_back(weight);
    }
    for (int i = 0; i < options.ops_per_block; ++i) {
      // The newest value first, so that the chain reaches the loss and in-place moves are possible; all weights are
      // read.
      std::vector<ValueId> reads = {x};
      if (i < options.weights) reads.push_back(nth(local, i + 1));
      if (random.below(2)) reads.push_back(local[random.below(static_cast<uint32_t>(local.size()))]);
      const int64_t bytes = random.below(2) ? b.type(x).bytes() : random_bytes();
      const int64_t workspace = random.below(3) ? 0 : random_bytes();
      const int64_t second = random.below(3) ? 0 : random_bytes();
      const std::vector<ValueId> outputs =
          b.append(kMix, reads, next_attributes(b, bytes, workspace, second, std::ssize(reads)));
      x = outputs[0];
      local.insert(local.end(), outputs.begin(), outputs.end());
    }
    if (options.experts > 0) x = append_experts(b, x, block, options, random);
    b.end_block();
  }
  const ValueId loss = b.append_one(kMix, {x}, next_attributes(b, 8, 0, 0, 1));
  b.result(loss);
  append_backward(b, loss, weights, sum);
  const auto together = [&](ValueId value) {
    return b.append_one(kTogether, {value}, next_attributes(b, b.type(value).bytes()));
  };
  for (WeightGradient& w : weights) {
    if (options.collectives && w.accumulator == kNone) w.gradient = together(w.gradient);
  }
  if (options.micro_batches > 1) repeat_micro_batches(graph, options, weights);
  b.begin_section(update_section());
  for (const WeightGradient& w : weights) {
    // As with real accumulation, only accumulators carry gradients from several micro-batches to the update.
    const int64_t bytes = b.type(w.weight).bytes();
    if (options.updates_in_blocks) b.set_block(graph.value(w.weight).block);
    const ValueId state = b.input("state." + graph.value(w.weight).name, b.type(w.weight), ValueKind::kOptimizerState);
    const ValueId next = b.append_one(kGrad, {state, w.gradient}, next_attributes(b, bytes));
    b.update(state, next);
    b.update(w.weight, b.append_one(kGrad, {w.weight, next}, next_attributes(b, bytes)));
    if (w.accumulator == kNone || options.whole_step) continue;
    const bool is_together = options.collectives && random.below(2) == 0;
    b.update(w.gradient,
             is_together ? together(w.gradient) : b.append_one(kGrad, {w.gradient}, next_attributes(b, bytes)));
  }
  b.set_block(kNone);
  return graph;
}

Outcome expected_outcome(const Graph& graph) {
  std::map<ValueId, Bytes> values;
  Outcome outcome;
  const auto fill = [&](ValueId id, uint64_t seed) {
    Bytes& bytes = values[id];
    resize(bytes, graph.value(id).type.bytes());
    fill_value(graph.value(id).type, bytes.data(), seed);
  };
  const auto hash = [&](ValueId id) {
    return hash_bytes(values[id].data(), static_cast<int64_t>(values[id].size()), 0);
  };
  const auto run = [&](SectionId section) {
    for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
      const Operation& op = graph.op(id);
      if (op.section != section) continue;
      std::vector<uint64_t> hashes;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i] == kNone) continue;
        if (i >= kFirstExpert && !is_read(op.attributes, i, values[op.inputs[kOffsets]].data())) continue;
        hashes.push_back(hash(op.inputs[i]));
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) fill(op.outputs[i], output_seed(id, i, hashes));
      for (const ValueId v : op.outputs)
        if (std::count(graph.results.begin(), graph.results.end(), v)) outcome[v] = hash(v);
    }
  };
  const auto bring_home = [&](SectionId section) {
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
      const ValueId root = graph.persistent_root(id);
      if (root != kNone && root != id && graph.op(graph.value(id).producer).section <= section)
        values[root] = values[id];
    }
  };
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
    if (graph.is_persistent(id)) fill(id, initial_seed(id, 0));
  for (int micro_step = 0; micro_step < 2; ++micro_step) {
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
      if (graph.value(id).producer == kNone && !graph.is_persistent(id)) fill(id, initial_seed(id, micro_step));
    }
    run(0);
    run(1);
    bring_home(1);
  }
  run(2);
  bring_home(2);
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
    if (graph.is_persistent(id)) outcome[id] = hash(id);
  return outcome;
}

}  // namespace spillway::testing
