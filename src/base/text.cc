#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/utf8.h"

namespace spillway {

namespace {

// Returns true for code points that a terminal obeys or that reorder text around them: C1 controls, separators of
// lines, marks and overrides of direction.
bool is_hidden(char32_t c) {
  return (c >= 0x80 && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

// Escapes characters that move the cursor or change how text is shown, and invalid UTF-8. Bytes of `kept` stay.
void append_shown(std::string& out, std::string_view text, std::string_view kept = "") {
  for (size_t at = 0; at < text.size();) {
    const Utf8Part part = utf8_part(text, at);
    const std::string_view bytes = text.substr(at, part.bytes);
    at += part.bytes;
    if (kept.find(bytes[0]) != std::string_view::npos) {
      out += bytes;
    } else if (bytes[0] == '\n') {
      out += "\\n";
    } else if (!part.is_valid || part.code_point < 0x20 || part.code_point == 0x7f) {
      for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    } else if (is_hidden(part.code_point)) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(part.code_point));
    } else {
      out += bytes;
    }
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
    // Cuts between characters, never inside one.
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
  int best = std::min(size, size <= 3 ? 2 : std::max(2, size / 2) + 1);  // fewer edits than it has letters
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

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string joined_names(std::span<const std::string_view> names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

}  // namespace spillway
