#include "cli/chat/word_wrap.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"

namespace spillway {
namespace {

constexpr int64_t kTabColumns = 8;

struct CodePoints {
  char32_t first, last;
};

// The blocks of Unicode whose characters are wide (UAX #11: W and F), and those of marks that take no column.
constexpr std::array<CodePoints, 12> kWide = {{{0x1100, 0x115F},
                                               {0x2E80, 0x303E},
                                               {0x3041, 0x4DBF},
                                               {0x4E00, 0xA4CF},
                                               {0xA960, 0xA97F},
                                               {0xAC00, 0xD7A3},
                                               {0xF900, 0xFAFF},
                                               {0xFE30, 0xFE6F},
                                               {0xFF01, 0xFF60},
                                               {0xFFE0, 0xFFE6},
                                               {0x1F300, 0x1FAFF},
                                               {0x20000, 0x3FFFD}}};
constexpr std::array<CodePoints, 6> kWithoutColumn = {
    {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0x1F3FB, 0x1F3FF}}};

template <size_t kBlocks>
bool is_one_of(const std::array<CodePoints, kBlocks>& blocks, char32_t c) {
  return std::any_of(blocks.begin(), blocks.end(),
                     [&](CodePoints block) { return c >= block.first && c <= block.last; });
}

int64_t columns_of(char32_t c) { return is_one_of(kWithoutColumn, c) ? 0 : is_one_of(kWide, c) ? 2 : 1; }

}  // namespace

void WordWrap::show_spaces() {
  shown_ += std::exchange(spaces_, {});
  column_ += std::exchange(space_columns_, 0);
}

void WordWrap::show_word() {
  if (word_.empty()) return;
  if (!is_inside_word_ && column_ > 0 && column_ + space_columns_ + word_columns_ > columns_) {
    shown_ += '\n';
    column_ = space_columns_ = 0;
    spaces_.clear();
  }
  show_spaces();
  shown_ += std::exchange(word_, {});
  column_ = (column_ + std::exchange(word_columns_, 0) - 1) % columns_ + 1;
}

void WordWrap::add(std::string_view character, char32_t code_point) {
  if (code_point == '\n' || code_point == ' ' || code_point == '\t') {
    show_word();
    is_inside_word_ = false;
    spaces_ += character;
    space_columns_ += code_point == '\t' ? kTabColumns - (column_ + space_columns_) % kTabColumns : 1;
    if (code_point == '\n') {
      show_spaces();
      column_ = 0;
    }
    return;
  }
  const int64_t columns = columns_of(code_point);
  // East Asian scripts have no spaces: a line may end before any of their characters, and behind it.
  if (columns == 2) {
    show_word();
    is_inside_word_ = false;
  }
  word_ += character;
  word_columns_ += columns;
  if (columns == 2 || is_inside_word_ || word_columns_ > columns_) {
    show_word();
    is_inside_word_ = columns != 2;
  }
}

std::string WordWrap::push(std::string_view piece) {
  for (size_t at = 0; at < piece.size();) {
    const size_t begin = at;
    const char32_t code_point = next_code_point(piece, at);
    add(piece.substr(begin, at - begin), code_point);
  }
  return std::exchange(shown_, {});
}

std::string WordWrap::finish() {
  show_word();
  show_spaces();
  return std::exchange(shown_, {});
}

}  // namespace spillway
