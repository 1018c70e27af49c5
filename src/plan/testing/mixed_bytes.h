// The bytes that operations of random graphs read and write: they follow from hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace spillway::testing {

using Bytes = std::vector<uint8_t>;

[[nodiscard]] uint64_t hash_bytes(const uint8_t* data, int64_t bytes, uint64_t seed);
void fill_bytes(uint8_t* data, int64_t bytes, uint64_t seed);
// Returns the seed of the content that a persistent value has before a step (micro-step 0), or a batch value in one.
[[nodiscard]] uint64_t initial_seed(ValueId id, int micro_step);
// Writes the content of a value. Integers are offsets of experts, half of which have rows.
void fill_value(const ValueType& type, uint8_t* data, uint64_t seed);
// Returns the seed of an operation's output: a function of the operation and of the bytes of all inputs that it reads.
[[nodiscard]] uint64_t output_seed(OpId op, size_t output, std::span<const uint64_t> input_hashes);

// The inputs of an operation on experts: a value, offsets, and the experts.
constexpr int8_t kOffsets = 1;
constexpr size_t kFirstExpert = 2;
// Returns true if an operation reads an input, given the content of its second one.
[[nodiscard]] bool is_read(const Attributes& attributes, size_t input, const uint8_t* offsets);

}  // namespace spillway::testing
