#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace spillway {

namespace {

// The code point of valid UTF-8 that `text` begins with where it is one that a terminal obeys or that reorders what
// stands around it: C1 controls, separators of lines, marks and overrides of direction. 0 for others.
uint32_t hidden_code_point(std::string_view text) {
  const auto byte = [&text](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  const uint32_t two = (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
  if ((byte(0) & 0xe0u) == 0xc0u) return (two >= 0x80 && two < 0xa0) || two == 0x61c ? two : 0;
  if ((byte(0) & 0xf0u) != 0xe0u) return 0;
  const uint32_t three = (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
  const bool is_hidden = three == 0x200e || three == 0x200f || (three >= 0x2028 && three <= 0x202e) ||
                         (three >= 0x2066 && three <= 0x2069);
  return is_hidden ? three : 0;
}

// Escapes what moves the cursor or changes how text is shown, and what is no UTF-8. Bytes of `kept` stay.
void append_shown(std::string& out, std::string_view text, std::string_view kept = "") {
  while (!text.empty()) {
    const int64_t invalid = first_invalid_utf8(text);
    const size_t valid = invalid < 0 ? text.size() : static_cast<size_t>(invalid);
    for (size_t i = 0; i < std::min(valid + 1, text.size()); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (kept.find(text[i]) != std::string_view::npos) {
        out += text[i];
      } else if (text[i] == '\n') {
        out += "\\n";
      } else if (i == valid || byte < 0x20 || byte == 0x7f) {
        out += fmt::format("\\x{:02x}", byte);
      } else if (const uint32_t code = byte < 0x80 ? 0 : hidden_code_point(text.substr(i, valid - i)); code != 0) {
        out += fmt::format("\\u{:04x}", code);
        i += code < 0x800 ? 1 : 2;
      } else {
        out += text[i];
      }
    }
    text.remove_prefix(std::min(valid + 1, text.size()));
  }
}

}  // namespace

std::string shown_line(std::string_view text) {
  std::string out;
  append_shown(out, text);
  return out;
}

std::string shown_text(std::string_view text) {
  std::string out;
  append_shown(out, text, "\n\t");
  return out;
}

std::string quote(std::string_view text) {
  constexpr size_t kEdge = 40;
  std::string out = "'";
  if (text.size() <= 2 * kEdge) {
    append_shown(out, text);
  } else {
    // Cut between characters, never inside one.
    const auto continues = [&text](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
    size_t head = kEdge, tail = text.size() - kEdge;
    while (head > 0 && continues(head)) --head;
    while (tail < text.size() && continues(tail)) ++tail;
    append_shown(out, text.substr(0, head));
    out += "...";
    append_shown(out, text.substr(tail));
  }
  return out + "'";
}

int edit_distance(std::string_view a, std::string_view b) {
  constexpr int kLongest = 64;
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  const int rows = static_cast<int>(a.size()), columns = static_cast<int>(b.size());
  std::array<std::array<int, kLongest + 1>, kLongest + 1> cost;  // of the first i and j bytes
  for (int i = 0; i <= rows; ++i) cost[i][0] = i;
  for (int j = 0; j <= columns; ++j) cost[0][j] = j;
  for (int i = 1; i <= rows; ++i) {
    for (int j = 1; j <= columns; ++j) {
      const int replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[rows][columns];
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  const int size = static_cast<int>(word.size());
  int best = (size <= 3 ? 1 : std::max(2, size / 2)) + 1;
  std::string_view found;
  for (const std::string_view name : names) {
    if (std::abs(size - static_cast<int>(name.size())) >= best) continue;  // it takes as many edits, or more
    const int distance = edit_distance(word, name);
    if (distance < best) {
      best = distance;
      found = name;
    }
  }
  return found;
}

std::string joined_names(std::span<const std::string_view> names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

int64_t first_invalid_utf8(std::string_view text) {
  const auto byte = [&text](size_t at) { return static_cast<unsigned char>(text[at]); };
  size_t at = 0;
  while (at < text.size()) {
    const unsigned lead = byte(at);
    const int extra = lead < 0x80                   ? 0
                      : lead >= 0xc2 && lead < 0xe0 ? 1
                      : lead >= 0xe0 && lead < 0xf0 ? 2
                      : lead >= 0xf0 && lead < 0xf5 ? 3
                                                    : -1;
    if (extra < 0 || at + extra >= text.size()) return static_cast<int64_t>(at);
    uint32_t code = extra == 0 ? lead : lead & (0x3fu >> extra);
    for (int i = 1; i <= extra; ++i) {
      if ((byte(at + i) & 0xc0) != 0x80) return static_cast<int64_t>(at);
      code = code << 6 | (byte(at + i) & 0x3fu);
    }
    const bool overlong = (extra == 2 && code < 0x800) || (extra == 3 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return static_cast<int64_t>(at);
    at += extra + 1;
  }
  return -1;
}

}  // namespace spillway
