#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <bit>
#include <map>
#include <new>

#include "base/error.h"
#include "base/index.h"
#include "text/tokenizer/regex_syntax.h"

namespace spillway::text {
namespace {

constexpr size_t kPageSize = 256;
constexpr uint32_t kRegexMatchLimit = 20'000'000;  // backtracking steps of one match

// The kind of each code point: code points have the same kind if and only if they are in the same sets. The line feed
// keeps its value, for `^` and `$`.
struct Kinds {
  std::vector<uint8_t> of_code_point = std::vector<uint8_t>(kMaxCodePoint + 1);
  std::vector<std::vector<uint8_t>> of_set;  // ascending
};

Kinds partition(const std::vector<CodePointSet>& sets, std::string_view where) {
  std::vector<char32_t> starts = {0};
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      starts.push_back(range.first);
      if (range.last < kMaxCodePoint) starts.push_back(range.last + 1);
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());

  // Walks all sets beside each other; `membership` is the bit set of those that hold the code points from `starts[i]`.
  Kinds result;
  result.of_set.resize(sets.size());
  std::vector<size_t> next(sets.size());
  std::map<std::vector<bool>, uint8_t> known;
  int unused = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    std::vector<bool> membership(sets.size());
    for (size_t s = 0; s < sets.size(); ++s) {
      const auto ranges = sets[s].ranges();
      while (next[s] < ranges.size() && ranges[next[s]].last < starts[i]) ++next[s];
      membership[s] = next[s] < ranges.size() && ranges[next[s]].first <= starts[i];
    }
    auto found = known.find(membership);
    if (found == known.end()) {
      if (unused == '\n') ++unused;
      if (unused > 255) {
        throw input_error(where,
                          "expected a pattern that tells at most 255 kinds of characters apart, got more; "
                          "use ranges and properties");
      }
      const uint8_t kind = membership[0] ? '\n' : static_cast<uint8_t>(unused++);
      found = known.emplace(membership, kind).first;
      for (size_t s = 0; s < sets.size(); ++s) {
        if (membership[s]) result.of_set[s].push_back(kind);
      }
    }
    const char32_t end = i + 1 < starts.size() ? starts[i + 1] : kMaxCodePoint + 1;
    std::fill(result.of_code_point.begin() + starts[i], result.of_code_point.begin() + end, found->second);
  }
  for (auto& kinds : result.of_set) std::sort(kinds.begin(), kinds.end());
  return result;
}

std::string byte_class(const std::vector<uint8_t>& kinds) {
  if (kinds.empty()) return "(?!)";
  std::string result = "[";
  for (size_t i = 0; i < kinds.size();) {
    size_t last = i;
    while (last + 1 < kinds.size() && kinds[last + 1] == kinds[last] + 1) ++last;
    result += fmt::format("\\x{:02x}", kinds[i]);
    if (last > i) result += fmt::format("-\\x{:02x}", kinds[last]);
    i = last + 1;
  }
  return result + "]";
}

}  // namespace

RegexScratch::RegexScratch() : match_data(pcre2_match_data_create_8(1, nullptr)) {
  if (match_data == nullptr) throw std::bad_alloc();
}
RegexScratch::~RegexScratch() { pcre2_match_data_free_8(match_data); }

void Regex::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free_8(code); }

Regex::Regex(std::string_view pattern, std::string_view where) : where_(where) {
  const RegexSyntax syntax = parse_regex(pattern, where);
  const Kinds kinds = partition(syntax.sets, where);

  std::map<std::string_view, uint16_t> known;
  const auto* all = reinterpret_cast<const char*>(kinds.of_code_point.data());
  for (size_t start = 0; start < kinds.of_code_point.size(); start += kPageSize) {
    const auto [page, is_new] = known.try_emplace({all + start, kPageSize}, static_cast<uint16_t>(known.size()));
    if (is_new) kinds_.insert(kinds_.end(), page->first.begin(), page->first.end());
    pages_.push_back(page->second);
  }

  std::string bytes;
  for (const RegexItem& item : syntax.items) {
    bytes += item.set < 0 ? item.structure : byte_class(nth(kinds.of_set, item.set));
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::unique_ptr<pcre2_compile_context_8, decltype(&pcre2_compile_context_free_8)> context(
      pcre2_compile_context_create_8(nullptr), pcre2_compile_context_free_8);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(bytes.data()), bytes.size(), PCRE2_MULTILINE, &error,
                              &offset, context.get()),
              CodeDeleter());
  if (!code_) {
    PCRE2_UCHAR8 text[200];
    pcre2_get_error_message_8(error, text, sizeof text);
    throw input_error(where, "expected a regular expression, got one that cannot be used ({}); rewrite it",
                      reinterpret_cast<const char*>(text));
  }
  jit_ = pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

bool Regex::to_kinds(std::string_view text, std::vector<uint8_t>& kinds) const {
  kinds.resize(text.size());
  size_t count = 0;
  const uint8_t* ascii = kinds_.data() + (size_t{pages_[0]} << 8);
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      kinds[count++] = ascii[byte];
      ++i;
    } else {
      kinds[count++] = kind(next_code_point(text, i));
    }
  }
  kinds.resize(count);
  return count == text.size();
}

bool Regex::find(RegexScratch& scratch, size_t from, Match& match) const {
  const PCRE2_SPTR8 subject = scratch.kinds.data();
  const size_t size = scratch.kinds.size();
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (jit_) result = pcre2_jit_match_8(code_.get(), subject, size, from, 0, scratch.match_data, nullptr);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // a small fixed stack; the interpreter's grows, to a limit
    const std::unique_ptr<pcre2_match_context_8, decltype(&pcre2_match_context_free_8)> context(
        pcre2_match_context_create_8(nullptr), pcre2_match_context_free_8);
    if (!context) throw std::bad_alloc();
    pcre2_set_match_limit_8(context.get(), kRegexMatchLimit);
    result = pcre2_match_8(code_.get(), subject, size, from, PCRE2_NO_JIT, scratch.match_data, context.get());
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw input_error(where_,
                      "expected a pattern that matches any text in bounded steps, got one that gave up on a "
                      "text of {} characters (PCRE2 error {}); rewrite it",
                      size, result);
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer_8(scratch.match_data);
  match = {ends[0], ends[1]};
  return true;
}

}  // namespace spillway::text
