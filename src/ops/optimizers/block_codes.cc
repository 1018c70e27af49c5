#include "ops/optimizers/block_codes.h"

#include <algorithm>

#include "base/error.h"

namespace spillway::ops {
namespace {

constexpr uint32_t kNever = 0xFFFFFF;  // above what any number has below its cell

// Returns codes by the bounds alone; for a negative number the complement.
class CodeOf {
 public:
  explicit CodeOf(const BlockCodes& codes) : count_(codes.count()) {
    for (int i = 0; i + 1 < count_; ++i) bounds_.push_back(upper_bound_of(codes.values, i, codes.rule));
  }
  [[nodiscard]] const std::vector<float>& bounds() const { return bounds_; }
  [[nodiscard]] uint32_t operator()(uint32_t magnitude, bool negative) const {
    const auto size = std::bit_cast<float>(magnitude);
    const float x = negative ? -size : size;
    const auto code = std::lower_bound(bounds_.begin(), bounds_.end(), x) - bounds_.begin();
    return static_cast<uint32_t>(negative ? count_ - 1 - code : code);
  }

 private:
  int count_;
  std::vector<float> bounds_;
};

// Returns the entry of the magnitudes [first, last].
uint32_t entry_of(const CodeOf& code_of, uint32_t first, uint32_t last, uint32_t rest, bool negative) {
  const uint32_t code = code_of(first, negative);
  if (code_of(last, negative) == code) return kNever << 8 | code;
  SPILLWAY_CHECK(code_of(last, negative) == code + 1, "codes {} to {} in a cell", code, code_of(last, negative));
  uint32_t low = first, high = last;  // of these the codes are known
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (code_of(middle, negative) == code ? low : high) = middle;
  }
  return (low & rest) << 8 | code;
}

}  // namespace

EncodeTable::EncodeTable(const BlockCodes& codes) {
  // Maps have 64 values in [0.1, 1] if there is a sign, and else 128: cells of 2^-7 and 2^-8 at the top.
  shift = codes.is_signed ? 17 : 16;
  const uint32_t rest = (uint32_t{1} << shift) - 1;
  lowest = static_cast<int32_t>(std::bit_cast<uint32_t>(0x1p-24F) >> shift);
  cells = static_cast<int32_t>(std::bit_cast<uint32_t>(1.0F) >> shift) - lowest + 1;
  const CodeOf code_of(codes);
  bounds = code_of.bounds();
  for (const bool negative : {false, true}) {
    if (negative && !codes.is_signed) break;
    for (int32_t cell = 0; cell < cells; ++cell) {
      const auto first = static_cast<uint32_t>(lowest + cell) << shift;
      const uint32_t last = cell + 1 == cells ? std::bit_cast<uint32_t>(1.0F) : first + rest;
      // -0 is 0, so the smallest magnitude below zero is 1.
      const uint32_t smallest = negative ? 1 : 0;
      SPILLWAY_CHECK(cell > 0 || code_of(smallest, negative) == code_of(last, negative), "a bound below 2^-24");
      entries.push_back(entry_of(code_of, first, last, rest, negative));
    }
  }
}

const EncodeTable& encode_table(const BlockCodes& codes) {
  static const EncodeTable kTables[] = {EncodeTable(kBnbSigned), EncodeTable(kBnbUnsigned),
                                        EncodeTable(kAoSigned8), EncodeTable(kAoUnsigned8),
                                        EncodeTable(kAoSigned4), EncodeTable(kAoUnsigned4)};
  const int torchao = codes.rule == CodeRule::kTorchao ? (codes.bits == 8 ? 2 : 4) : 0;
  return kTables[torchao + (codes.is_signed ? 0 : 1)];
}

}  // namespace spillway::ops
