#include "data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/code_points.h"
#include "data/tokenizer/utf8.h"

namespace spillway::data {
namespace {

// The pattern of GPT-2's tokenizer, which ByteLevel uses unless told not to.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// \w+|[^\w\s]+ of the `Whitespace` step, whose regex engine has joiners in \w, and no superscripts or fractions.
constexpr std::string_view kWhitespacePattern = R"([\w\u200C\u200D&&[^\u00B2\u00B3\u00B9\u00BC-\u00BE]]+|)"
                                                R"([^\s[\w\u200C\u200D&&[^\u00B2\u00B3\u00B9\u00BC-\u00BE]]]+)";

struct Part {
  uint32_t begin, end;
  bool is_match;
};

// Joins neighbours as `behavior` says. A part that was joined to another counts for nothing any more.
void join_parts(std::vector<Part>& parts, SplitBehavior behavior) {
  std::vector<Part> joined;
  bool last_matched = false;
  const auto merge_forward = [&](const Part& part) {
    if (part.is_match && !last_matched && !joined.empty()) {
      joined.back().begin = std::min(joined.back().begin, part.begin);
      joined.back().end = std::max(joined.back().end, part.end);
    } else {
      joined.push_back(part);
    }
    last_matched = part.is_match;
  };
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      return;
    case SplitBehavior::kMergedWithPrevious:
      std::for_each(parts.begin(), parts.end(), merge_forward);
      break;
    case SplitBehavior::kMergedWithNext:
      std::for_each(parts.rbegin(), parts.rend(), merge_forward);
      std::reverse(joined.begin(), joined.end());
      break;
    case SplitBehavior::kContiguous:
      for (const Part& part : parts) {
        if (!joined.empty() && joined.back().is_match == part.is_match)
          joined.back().end = part.end;
        else
          joined.push_back(part);
      }
  }
  parts = std::move(joined);
}

// Cuts every word: find(word, found) calls found(begin, end) for the matches of a word, in order.
template <typename Find>
void split(Words& words, SplitBehavior behavior, bool invert, const Find& find) {
  std::vector<Words::Span> result;
  std::vector<Part> parts;
  result.reserve(words.spans.size() * 2);
  for (const Words::Span& span : words.spans) {
    parts.clear();
    uint32_t done = 0;
    const std::string_view word = words.word(span);
    find(word, [&](size_t begin, size_t end) {
      const auto first = static_cast<uint32_t>(begin), last = static_cast<uint32_t>(end);
      if (first > done) parts.push_back({done, first, invert});
      parts.push_back({first, last, !invert});
      done = last;
    });
    if (done < word.size()) parts.push_back({done, static_cast<uint32_t>(word.size()), invert});
    join_parts(parts, behavior);
    for (const Part& part : parts) {
      if (part.begin == part.end) continue;
      result.push_back({span.begin + part.begin, span.begin + part.end, span.starts_text && part.begin == 0});
    }
  }
  words.spans = std::move(result);
}

// Writes every word anew: write(word, span, out) appends it to `out`.
template <typename Write>
void rewrite(Words& words, const Write& write) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4 + 16);
  for (Words::Span& span : words.spans) {
    const auto begin = static_cast<uint32_t>(text.size());
    write(words.word(span), span, text);
    check_text_size(text.size());
    span = {begin, static_cast<uint32_t>(text.size()), span.starts_text};
  }
  words.text = std::move(text);
}

SplitBehavior read_behavior(const JsonField& field, std::string_view otherwise) {
  const std::string name = field.string_or(otherwise);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw field.bad("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous", "use one of these");
}

}  // namespace

void PreTokenizer::read(const JsonField& field) {
  if (field.is_null()) return;
  const std::string& type = field["type"].string();
  const auto keep_matches = [&](std::string_view pattern, SplitBehavior behavior, bool invert) {
    steps_.push_back(SplitPattern{Pattern(Regex(pattern, field.where())), behavior, invert});
  };
  if (type == "Sequence") {
    for (const JsonField& step : field["pretokenizers"].elements()) read(step);
  } else if (type == "ByteLevel") {
    if (field["add_prefix_space"].boolean_or(true)) steps_.push_back(PrependSpace{});
    if (field["use_regex"].boolean_or(true)) keep_matches(kGpt2Pattern, SplitBehavior::kIsolated, false);
    steps_.push_back(Bytes{});
  } else if (type == "Split") {
    steps_.push_back(SplitPattern{Pattern(field["pattern"]), read_behavior(field["behavior"], ""),
                                  field["invert"].boolean_or(false)});
  } else if (type == "Digits") {
    const bool each = field["individual_digits"].boolean_or(false);
    steps_.push_back(SplitCharacters{is_numeric, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (type == "Punctuation") {
    steps_.push_back(SplitCharacters{is_punctuation, read_behavior(field["behavior"], "Isolated")});
  } else if (type == "WhitespaceSplit") {
    steps_.push_back(SplitCharacters{is_whitespace, SplitBehavior::kRemoved});
  } else if (type == "BertPreTokenizer") {
    steps_.push_back(SplitCharacters{is_whitespace, SplitBehavior::kRemoved});
    steps_.push_back(SplitCharacters{is_punctuation, SplitBehavior::kIsolated});
  } else if (type == "CharDelimiterSplit") {
    steps_.push_back(SplitPattern{Pattern(field["delimiter"].character()), SplitBehavior::kRemoved, false});
  } else if (type == "Whitespace") {
    keep_matches(kWhitespacePattern, SplitBehavior::kRemoved, true);
  } else if (type == "Metaspace") {
    read_metaspace(field);
  } else {
    throw field["type"].bad(
        "ByteLevel, Split, Digits, Punctuation, WhitespaceSplit, Whitespace, BertPreTokenizer, "
        "CharDelimiterSplit, Metaspace or Sequence",
        "use a model with such a tokenizer");
  }
}

void PreTokenizer::read_metaspace(const JsonField& field) {
  const std::string& replacement = field["replacement"].character();
  const std::string scheme =
      field["prepend_scheme"].string_or(field["add_prefix_space"].boolean_or(true) ? "always" : "never");
  PrependScheme prepend = PrependScheme::kAlways;
  if (scheme == "first")
    prepend = PrependScheme::kFirst;
  else if (scheme == "never")
    prepend = PrependScheme::kNever;
  else if (scheme != "always")
    throw field["prepend_scheme"].bad("always, first or never", "use one of these");
  steps_.push_back(Metaspace{replacement, prepend});
  if (field["split"].boolean_or(true)) {
    steps_.push_back(SplitPattern{Pattern(replacement), SplitBehavior::kMergedWithNext, false});
  }
}

void PreTokenizer::apply(std::string_view text, bool starts_text, Words& words, RegexScratch& scratch) const {
  check_text_size(text.size());
  words.text.assign(text);
  words.spans.clear();
  if (!text.empty()) words.spans.push_back({0, static_cast<uint32_t>(text.size()), starts_text});
  for (const Step& step : steps_) {
    std::visit([&](const auto& kind) { run(kind, words, scratch); }, step);
  }
}

void PreTokenizer::run(const SplitPattern& step, Words& words, RegexScratch& scratch) {
  split(words, step.behavior, step.invert,
        [&](std::string_view word, const auto& found) { step.pattern.find_all(word, scratch, found); });
}

void PreTokenizer::run(const SplitCharacters& step, Words& words, RegexScratch&) {
  split(words, step.behavior, false, [&](std::string_view word, const auto& found) {
    for (size_t i = 0; i < word.size();) {
      const size_t begin = i;
      if (step.test(next_code_point(word, i))) found(begin, i);
    }
  });
}

void PreTokenizer::run(const PrependSpace&, Words& words, RegexScratch&) {
  rewrite(words, [](std::string_view word, const Words::Span&, std::string& out) {
    if (!word.starts_with(' ')) out.push_back(' ');
    out.append(word);
  });
}

void PreTokenizer::run(const Bytes&, Words& words, RegexScratch&) {
  rewrite(words,
          [](std::string_view word, const Words::Span&, std::string& out) { append_byte_characters(out, word); });
}

void PreTokenizer::run(const Metaspace& step, Words& words, RegexScratch&) {
  rewrite(words, [&](std::string_view word, const Words::Span& span, std::string& out) {
    const bool wanted =
        step.prepend == PrependScheme::kAlways || (step.prepend == PrependScheme::kFirst && span.starts_text);
    if (wanted && !word.starts_with(' ') && !word.starts_with(step.replacement)) out += step.replacement;
    for (const char c : word) {
      if (c == ' ')
        out += step.replacement;
      else
        out.push_back(c);
    }
  });
}

}  // namespace spillway::data
