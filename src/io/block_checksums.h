// Keeps a sum of every block that was written to the disk tier, to detect a disk or a program that returns other bytes.
//
// A sum is 32 bits of XXH3 (xxHash by Y. Collet) for each 4 KiB. A block that was never written is not compared.
// Different blocks may be noted and compared by several threads at once; the caller orders accesses to the same block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace spillway {

class BlockChecksums {
 public:
  static constexpr int64_t kBlockBytes = 4096;
  // Returns the memory that the sums of a tier of this size take, beside the arenas.
  [[nodiscard]] static int64_t table_bytes(int64_t tier_bytes) { return tier_bytes / kBlockBytes * 4; }

  // Makes one allocation, of table_bytes(tier_bytes).
  explicit BlockChecksums(int64_t tier_bytes);

  struct Mismatch {
    int64_t offset = 0;  // of the block in the tier
    uint32_t expected = 0, got = 0;
  };
  // Both take whole blocks. `offset` is that in the tier.
  void note(int64_t offset, std::span<const std::byte> written);
  [[nodiscard]] std::optional<Mismatch> compare(int64_t offset, std::span<const std::byte> read) const;

 private:
  std::vector<uint32_t> sums_;  // 0: never written
};

}  // namespace spillway
