// Accesses elements by ids, enums and other integers.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace spillway {

// Returns items[index] of a vector, array or span, for an index that is an id, a value of an enum or any other integer:
// ids and sizes are signed here, and the standard library's indices are not. REQUIRES: index >= 0, within the items.
template <typename Items, typename Index>
[[nodiscard]] constexpr decltype(auto) nth(Items&& items, Index index) {
  assert(static_cast<int64_t>(index) >= 0);
  return std::forward<Items>(items)[static_cast<size_t>(index)];
}

}  // namespace spillway
