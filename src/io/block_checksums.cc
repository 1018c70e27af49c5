#include "io/block_checksums.h"

#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"

namespace spillway {
namespace {

// Returns the sum, never 0, which stands for a block that was not written.
uint32_t sum_of(const std::byte* block) {
  return std::max(static_cast<uint32_t>(XXH3_64bits(block, BlockChecksums::kBlockBytes)), uint32_t{1});
}

}  // namespace

BlockChecksums::BlockChecksums(int64_t tier_bytes) : sums_(make_vector<uint32_t>(tier_bytes / kBlockBytes)) {}

void BlockChecksums::note(int64_t offset, std::span<const std::byte> written) {
  SPILLWAY_CHECK(offset % kBlockBytes == 0 && written.size() % kBlockBytes == 0, "{} bytes at {}", written.size(),
                 offset);
  uint32_t* sum = &nth(sums_, offset / kBlockBytes);
  for (size_t at = 0; at < written.size(); at += kBlockBytes) *sum++ = sum_of(written.data() + at);
}

std::optional<BlockChecksums::Mismatch> BlockChecksums::compare(int64_t offset, std::span<const std::byte> read) const {
  SPILLWAY_CHECK(offset % kBlockBytes == 0 && read.size() % kBlockBytes == 0, "{} bytes at {}", read.size(), offset);
  for (int64_t at = 0; at < std::ssize(read); at += kBlockBytes) {
    const uint32_t expected = nth(sums_, (offset + at) / kBlockBytes);
    if (expected == 0) continue;
    const uint32_t got = sum_of(read.data() + at);
    if (got != expected) return Mismatch{offset + at, expected, got};
  }
  return std::nullopt;
}

}  // namespace spillway
