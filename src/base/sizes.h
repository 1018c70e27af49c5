// Vectors, strings, spans and memory of a signed size: sizes are int64_t here, and the standard library's are not.
// REQUIRES: every count and offset is >= 0, and parts lie within the whole.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace spillway {

// Returns `count` elements, each T{}.
template <typename T>
[[nodiscard]] std::vector<T> make_vector(int64_t count) {
  assert(count >= 0);
  return std::vector<T>(static_cast<size_t>(count));
}
// Returns `count` copies of `value`.
template <typename T>
[[nodiscard]] std::vector<T> make_vector(int64_t count, const T& value) {
  assert(count >= 0);
  return std::vector<T>(static_cast<size_t>(count), value);
}

// Returns "-----" for '-' and 5.
[[nodiscard]] inline std::string repeated(char character, int64_t count) {
  assert(count >= 0);
  return std::string(static_cast<size_t>(count), character);
}

// Resize and reserve a vector or string; new elements are `value`.
template <typename Items, typename... Value>
void resize(Items& items, int64_t count, const Value&... value) {
  assert(count >= 0);
  items.resize(static_cast<size_t>(count), value...);
}
template <typename Items>
void reserve(Items& items, int64_t count) {
  assert(count >= 0);
  items.reserve(static_cast<size_t>(count));
}
// Appends `count` copies of `value`.
template <typename Items, typename Value>
void append_repeated(Items& items, int64_t count, const Value& value) {
  assert(count >= 0);
  items.insert(items.end(), static_cast<size_t>(count), value);
}

// Returns the `count` elements from `first` on.
template <typename T>
[[nodiscard]] std::span<T> span_of(T* first, int64_t count) {
  assert(count >= 0);
  return {first, static_cast<size_t>(count)};
}
// Returns items[begin, begin + count) of a vector, array or span; without a count, all from `begin` on.
template <typename Items>
[[nodiscard]] auto subspan_of(Items&& items, int64_t begin, int64_t count) {
  assert(begin >= 0 && count >= 0);
  return std::span(std::forward<Items>(items)).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}
template <typename Items>
[[nodiscard]] auto subspan_of(Items&& items, int64_t begin) {
  assert(begin >= 0);
  return std::span(std::forward<Items>(items)).subspan(static_cast<size_t>(begin));
}
// Returns the first `count` elements of a vector, array or span.
template <typename Items>
[[nodiscard]] auto first_of(Items&& items, int64_t count) {
  return subspan_of(std::forward<Items>(items), 0, count);
}

// memcpy, of bytes and of elements. REQUIRES: source and target do not overlap.
inline void copy_memory(void* to, const void* from, int64_t bytes) {
  assert(bytes >= 0);
  std::memcpy(to, from, static_cast<size_t>(bytes));
}
template <typename T>
void copy_elems(T* to, const T* from, int64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  assert(count >= 0);
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}
// memset: sets each of the bytes to `value`.
inline void fill_memory(void* to, int value, int64_t bytes) {
  assert(bytes >= 0);
  std::memset(to, value, static_cast<size_t>(bytes));
}

}  // namespace spillway
