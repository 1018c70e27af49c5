#include "plan/testing/mixed_bytes.h"

#include <array>
#include <cstring>

namespace spillway::testing {

uint64_t hash_bytes(const uint8_t* data, int64_t bytes, uint64_t seed) {
  uint64_t hash = seed ^ 0x9E3779B97F4A7C15;
  for (int64_t i = 0; i < bytes; ++i) hash = (hash ^ data[i]) * 0x100000001B3 + static_cast<uint64_t>(i);
  return hash;
}

// Writes the high bits of a linear congruential generator (Knuth's MMIX), which makes bytes by the million in a moment.
void fill_bytes(uint8_t* data, int64_t bytes, uint64_t seed) {
  for (int64_t i = 0; i < bytes; ++i) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    data[i] = static_cast<uint8_t>(seed >> 56);
  }
}

uint64_t initial_seed(ValueId id, int micro_step) {
  return 1000003u * static_cast<uint64_t>(id) + static_cast<uint64_t>(micro_step);
}

void fill_value(const ValueType& type, uint8_t* data, uint64_t seed) {
  if (type.dtype != DType::kI32) return fill_bytes(data, type.bytes(), seed);
  int32_t offset = 0;
  for (int64_t i = 0; i < type.shape.elems(); ++i) {
    std::memcpy(data + i * static_cast<int64_t>(sizeof offset), &offset, sizeof offset);
    seed = seed * 6364136223846793005 + 1442695040888963407;
    offset += static_cast<int32_t>(seed >> 63);
  }
}

uint64_t output_seed(OpId op, size_t output, std::span<const uint64_t> input_hashes) {
  uint64_t seed = static_cast<uint64_t>(op) * 31 + output;
  for (const uint64_t hash : input_hashes) seed = seed * 0x9E3779B97F4A7C15 + hash;
  return seed;
}

bool is_read(const Attributes& attributes, size_t input, const uint8_t* offsets) {
  if (attributes.integer("experts") == 0 || input < kFirstExpert) return true;
  std::array<int32_t, 2> rows;
  std::memcpy(rows.data(), offsets + (input - kFirstExpert) * sizeof(int32_t), sizeof rows);
  return rows[0] < rows[1];
}

}  // namespace spillway::testing
