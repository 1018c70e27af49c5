#include "job/unfrozen.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "text/tokenizer/regex.h"

namespace spillway::train {
namespace {

constexpr std::string_view kUnfrozenKey = "unfrozen_parameters";

struct Rows {
  int64_t begin = 0;
  std::optional<int64_t> end;  // absent: the last row's
};

struct Pattern {
  std::string name;  // a regular expression for the start of a name
  std::optional<Rows> rows;
};

// Returns the pattern with its dots escaped, unless they are already.
std::string with_plain_dots(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.' && (i == 0 || text[i - 1] != '\\')) result += '\\';
    result += text[i];
  }
  return result;
}

// Parses a number; nothing for an empty text.
std::optional<int64_t> row_of(std::string_view text, std::string_view entry) {
  if (text.empty()) return {};
  int64_t row = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), row);
  if (error != std::errc() || end != text.data() + text.size())
    throw input_error(kUnfrozenKey, "expected the numbers of rows in brackets, got {}; write [first:end]",
                      quote(entry));
  return row;
}

// "[12]", "[:12]": brackets of digits and a colon at the end, unlike a class of characters such as [0-9].
Pattern parse(const std::string& entry) {
  const size_t open = entry.rfind('[');
  const std::string_view inside = open == std::string::npos || entry.back() != ']'
                                      ? std::string_view()
                                      : std::string_view(entry).substr(open + 1, entry.size() - open - 2);
  if (inside.empty() || inside.find_first_not_of("0123456789:") != std::string_view::npos)
    return {with_plain_dots(entry), {}};
  const size_t colon = inside.find(':');
  Rows rows{.begin = row_of(inside.substr(0, colon), entry).value_or(0)};
  if (colon == std::string_view::npos) {
    rows.end = rows.begin + 1;
  } else {
    rows.end = row_of(inside.substr(colon + 1), entry);
  }
  if (rows.end && *rows.end <= rows.begin)
    throw input_error(kUnfrozenKey, "expected rows from a first to a later one, got {}; write [first:end]",
                      quote(entry));
  return {with_plain_dots(entry.substr(0, open)), rows};
}

bool matches(const text::Regex& regex, text::RegexScratch& scratch, std::string_view name) {
  bool found = false;
  regex.find_all(name, scratch, [&](size_t, size_t) { found = true; });
  return found;
}

ops::RowSlice slice_of(const Rows& rows, const Parameter& p, std::string_view entry) {
  const int64_t end = rows.end.value_or(p.shape[0]);
  if (rows.begin >= end || end > p.shape[0]) {
    throw input_error(kUnfrozenKey, "expected rows of {}, which has {}, got {}; change them", p.name, p.shape[0],
                      quote(entry));
  }
  return {rows.begin, end - rows.begin};
}

// Returns the ranges in ascending order without overlaps.
std::vector<ops::RowSlice> united(std::vector<ops::RowSlice> slices) {
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ops::RowSlice> result;
  for (const ops::RowSlice& slice : slices) {
    if (result.empty() || slice.first > result.back().first + result.back().count) {
      result.push_back(slice);
    } else {
      ops::RowSlice& last = result.back();
      last.count = std::max(last.first + last.count, slice.first + slice.count) - last.first;
    }
  }
  return result;
}

}  // namespace

UnfrozenWeights unfrozen_weights(const ParameterTable& parameters, std::span<const std::string> patterns) {
  UnfrozenWeights result;
  std::vector<std::string_view> in_full;
  for (const std::string& entry : patterns) {
    const Pattern pattern = parse(entry);
    const text::Regex regex(fmt::format("^(?:{})", pattern.name), kUnfrozenKey);
    text::RegexScratch scratch;
    bool is_known = false;
    for (const Parameter& p : parameters) {
      if (!p.is_written()) continue;
      // In transformers, too, a tied head is not a parameter of its own.
      is_known |= !p.copy_in_files.empty() && matches(regex, scratch, p.copy_in_files);
      if (!matches(regex, scratch, p.name)) continue;
      is_known = true;
      std::vector<ops::RowSlice>& rows = result[p.name];
      if (pattern.rows) {
        rows.push_back(slice_of(*pattern.rows, p, entry));
      } else {
        in_full.push_back(p.name);
      }
    }
    if (!is_known) {
      const auto one =
          std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.is_of_model(); });
      throw input_error(kUnfrozenKey, "expected the start of names such as {}, got {}; change the pattern", one->name,
                        quote(entry));
    }
  }
  if (!patterns.empty() && result.empty()) {
    throw input_error(kUnfrozenKey, "expected weights of this model, got only its tied head; name {}",
                      "model.embed_tokens.weight");
  }
  for (auto& [name, rows] : result) rows = united(std::move(rows));
  for (const std::string_view name : in_full) result.find(name)->second.clear();
  return result;
}

}  // namespace spillway::train
