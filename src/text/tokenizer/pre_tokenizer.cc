#include "text/tokenizer/pre_tokenizer.h"

#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/code_points.h"

namespace spillway::text {
namespace {

// The pattern of GPT-2's tokenizer, which ByteLevel uses by default.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The pattern \w+|[^\w\s]+ of the `Whitespace` step, whose regex engine has joiners in \w, and no superscripts or
// fractions.
constexpr std::string_view kWhitespacePattern = R"([\w\u200C\u200D&&[^\u00B2\u00B3\u00B9\u00BC-\u00BE]]+|)"
                                                R"([^\s[\w\u200C\u200D&&[^\u00B2\u00B3\u00B9\u00BC-\u00BE]]]+)";

// The most words between two steps.
constexpr size_t kMaxWords = 4096;

struct Part {
  uint32_t begin, end;
  bool is_match;
};

// Joins neighbours by a behavior, and passes each on as soon as it is complete.
template <typename Use>
class PartJoiner {
 public:
  PartJoiner(SplitBehavior behavior, const Use& use) : behavior_(behavior), use_(use) {}

  void add(const Part& part) {
    switch (behavior_) {
      case SplitBehavior::kIsolated:
        use_(part);
        return;
      case SplitBehavior::kRemoved:
        if (!part.is_match) use_(part);
        return;
      case SplitBehavior::kMergedWithPrevious:
        join(part, last_ && part.is_match && !last_->is_match);
        return;
      case SplitBehavior::kMergedWithNext:
        // A part that has been joined to the match before it takes no more.
        join(part, last_ && last_->is_match && !part.is_match);
        return;
      case SplitBehavior::kContiguous:
        join(part, last_ && last_->is_match == part.is_match);
    }
  }
  void finish() {
    if (last_) use_(*last_);
    last_.reset();
  }

 private:
  // A joined part is a match if its last one is.
  void join(const Part& part, bool joins) {
    const uint32_t begin = joins ? last_->begin : part.begin;
    if (!joins) finish();
    last_ = Part{begin, part.end, part.is_match};
  }

  SplitBehavior behavior_;
  const Use& use_;
  std::optional<Part> last_;
};

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

// Passes a text through the steps.
class PreTokenizer::Run {
 public:
  Run(const PreTokenizer& steps, PreTokenizerScratch& scratch, TextBudget& budget, const Use& use)
      : steps_(steps.steps_), stages_(scratch.stages_), budget_(budget), use_(use) {}

  void run(size_t index, const Words& words) {
    if (words.spans.empty()) return;
    if (index == steps_.size()) return use_(words);
    std::visit([&](const auto& step) { run(index, step, words); }, steps_[index]);
  }

 private:
  void run(size_t index, const SplitPattern& step, const Words& words) {
    split(index, words, step.behavior, step.invert,
          [&](std::string_view word, const auto& found) { step.pattern.find_all(word, stages_[index].regex, found); });
  }
  void run(size_t index, const SplitCharacters& step, const Words& words) {
    split(index, words, step.behavior, false, [&](std::string_view word, const auto& found) {
      for (size_t i = 0; i < word.size();) {
        const size_t begin = i;
        if (step.test(next_code_point(word, i))) found(begin, i);
      }
    });
  }
  void run(size_t index, const PrependSpace&, const Words& words) {
    rewrite(index, words, [](std::string_view word, const Words::Span&, std::string& out) {
      if (!word.starts_with(' ')) out.push_back(' ');
      out.append(word);
    });
  }
  void run(size_t index, const Bytes&, const Words& words) {
    rewrite(index, words,
            [](std::string_view word, const Words::Span&, std::string& out) { append_byte_characters(out, word); });
  }
  void run(size_t index, const Metaspace& step, const Words& words) {
    rewrite(index, words, [&](std::string_view word, const Words::Span& span, std::string& out) {
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

  // Cuts every word: find(word, found) calls found(begin, end) for the matches of a word, in order.
  template <typename Find>
  void split(size_t index, const Words& words, SplitBehavior behavior, bool invert, const Find& find) {
    Words& result = stages_[index].words;
    result.text = words.text;
    result.spans.clear();
    for (const Words::Span& span : words.spans) {
      const auto use = [&](const Part& part) {
        if (part.begin == part.end) return;
        result.spans.push_back({span.begin + part.begin, span.begin + part.end, span.starts_text && part.begin == 0});
        if (result.spans.size() == kMaxWords) pass_on(index);
      };
      PartJoiner joiner(behavior, use);
      uint32_t done = 0;
      const std::string_view word = words.word(span);
      find(word, [&](size_t begin, size_t end) {
        const auto first = static_cast<uint32_t>(begin), last = static_cast<uint32_t>(end);
        if (first > done) joiner.add({done, first, invert});
        joiner.add({first, last, !invert});
        done = last;
      });
      if (done < word.size()) joiner.add({done, static_cast<uint32_t>(word.size()), invert});
      joiner.finish();
    }
    pass_on(index);
  }
  void pass_on(size_t index) {
    run(index + 1, stages_[index].words);
    stages_[index].words.spans.clear();
  }

  // Writes every word anew: write(word, span, out) appends it to `out`.
  template <typename Write>
  void rewrite(size_t index, const Words& words, const Write& write) {
    Words& result = stages_[index].words;
    std::string& text = stages_[index].rewritten;
    result.spans.clear();
    text.clear();
    for (const Words::Span& span : words.spans) {
      const auto begin = static_cast<uint32_t>(text.size());
      write(words.word(span), span, text);
      budget_.check(text.size());
      result.spans.push_back({begin, static_cast<uint32_t>(text.size()), span.starts_text});
    }
    budget_.spend(text.size());
    result.text = text;
    run(index + 1, result);
  }

  const std::vector<Step>& steps_;
  std::deque<PreTokenizerScratch::Stage>& stages_;
  TextBudget& budget_;
  const Use& use_;
};

void PreTokenizer::apply(std::string_view text, bool starts_text, PreTokenizerScratch& scratch, TextBudget& budget,
                         const Use& use) const {
  budget.check(text.size());
  if (text.empty()) return;
  while (scratch.stages_.size() < steps_.size()) scratch.stages_.emplace_back();
  scratch.whole_.text = text;
  scratch.whole_.spans.assign(1, {0, static_cast<uint32_t>(text.size()), starts_text});
  Run(*this, scratch, budget, use).run(0, scratch.whole_);
}

}  // namespace spillway::text
