// Files with one JSON document per line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_field.h"
#include "io/file.h"

namespace spillway {

// Calls use(line, where) for each line of a file of at most 1 GiB; `where` is "FILE:NUMBER". Throws InputError if the
// file cannot be read.
template <typename Use>
void each_line(const std::string& path, const Use& use) {
  constexpr int64_t kMaxBytes = int64_t{1} << 30;
  const std::string content = read_file(path, kMaxBytes);
  std::string_view rest = content;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    use(rest.substr(0, end), fmt::format("{}:{}", path, number));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

// Returns the member of a line that has one of several names; the first one, which is null, if there is none. Throws
// InputError if there are two.
[[nodiscard]] inline JsonField member(const JsonField& line, std::initializer_list<std::string_view> names) {
  std::string_view found;
  for (const std::string_view name : names) {
    if (!line.has(name)) continue;
    if (!found.empty()) throw line[name].bad(fmt::format("one of {} and {}", found, name), "remove one");
    found = name;
  }
  return line[found.empty() ? *names.begin() : found];
}

}  // namespace spillway
