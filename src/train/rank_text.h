// Texts by which ranks of the same program tell each other values, to the last bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::train {

// Appends values to a text. T is trivially copyable.
class TextWriter {
 public:
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // Adds the number of elements, too. A string is a list of characters.
  template <typename List>
  void add_list(const List& list) {
    add(list.size());
    text_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof *list.data());
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Takes them off in the same order. Borrows the text.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  template <typename T>
  [[nodiscard]] T take() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  template <typename T>
  [[nodiscard]] std::vector<T> take_list() {
    std::vector<T> list(take<size_t>());
    if (!list.empty()) std::memcpy(list.data(), bytes(list.size() * sizeof(T)).data(), list.size() * sizeof(T));
    return list;
  }
  // Returns a string that borrows the text.
  [[nodiscard]] std::string_view take_string() { return bytes(take<size_t>()); }

 private:
  std::string_view bytes(size_t count) {
    SPILLWAY_CHECK(count <= rest_.size(), "{} bytes of {}", count, rest_.size());
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return result;
  }

  std::string_view rest_;
};

}  // namespace spillway::train
