#include "infer/generation/cache_rows.h"

#include <algorithm>

#include "base/math.h"
#include "ops/attention/cached_attention.h"

namespace spillway::infer {

int64_t CacheRows::rows_for(int64_t tokens) { return align_up(tokens, ops::kCacheRowAlign); }

std::optional<int64_t> CacheRows::take(int64_t tokens) {
  const int64_t rows = rows_for(tokens);
  const auto found =
      std::find_if(free_.begin(), free_.end(), [&](const Range& range) { return range.end - range.begin >= rows; });
  if (found == free_.end()) return std::nullopt;
  const int64_t first = found->begin;
  found->begin += rows;
  if (found->begin == found->end) free_.erase(found);
  return first;
}

void CacheRows::give_back(int64_t first, int64_t tokens) {
  Range range{first, first + rows_for(tokens)};
  const auto next =
      std::find_if(free_.begin(), free_.end(), [&](const Range& other) { return other.begin >= range.end; });
  auto at = free_.insert(next, range);
  if (const auto after = at + 1; after != free_.end() && after->begin == at->end) {
    at->end = after->end;
    free_.erase(after);
  }
  if (at != free_.begin() && (at - 1)->end == at->begin) {
    (at - 1)->end = at->end;
    free_.erase(at);
  }
}

}  // namespace spillway::infer
