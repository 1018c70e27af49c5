// The second step of a tokenizer: cuts text into words. Nested sequences are one list of steps; each step cuts the
// words of the one before, and may rewrite them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/text_budget.h"

namespace spillway::text {

// Words as spans of one text, in order.
struct Words {
  struct Span {
    uint32_t begin, end;
    bool starts_text;  // begins where the user's text begins
  };
  std::string_view text;
  std::vector<Span> spans;

  [[nodiscard]] std::string_view word(const Span& span) const { return text.substr(span.begin, span.end - span.begin); }
};

// Working memory of the steps; kept between texts. For one thread.
class PreTokenizerScratch {
 private:
  friend class PreTokenizer;
  struct Stage {
    Words words;            // that the step has made and the next one has not read yet
    std::string rewritten;  // their text, if the step rewrites it
    RegexScratch regex;
  };
  Words whole_;
  std::deque<Stage> stages_;
};

// The treatment of the matches at which words are cut.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Immutable; any thread may use it with a scratch of its own.
class PreTokenizer {
 public:
  // `field` may be null: a text is one word. Throws InputError for unsupported steps (UnicodeScripts, FixedLength).
  explicit PreTokenizer(const JsonField& field) { read(field); }

  using Use = std::function<void(const Words&)>;
  // Calls use(words) with the words of `text`, in order, some thousand at a time: all of them at once would take
  // several times the text's memory. None is empty. `starts_text`: the user's text begins here. Throws the budget's
  // errors. REQUIRES: valid UTF-8, at most kMaxTextBytes.
  void apply(std::string_view text, bool starts_text, PreTokenizerScratch& scratch, TextBudget& budget,
             const Use& use) const;

 private:
  enum class PrependScheme { kAlways, kFirst, kNever };
  using CharacterTest = bool (*)(char32_t);

  struct SplitPattern {
    Pattern pattern;
    SplitBehavior behavior;
    bool invert;
  };
  struct SplitCharacters {
    CharacterTest test;
    SplitBehavior behavior;
  };
  struct PrependSpace {};  // ByteLevel's add_prefix_space
  struct Bytes {};         // GPT-2's byte characters
  struct Metaspace {
    std::string replacement;  // one character
    PrependScheme prepend;
  };
  using Step = std::variant<SplitPattern, SplitCharacters, PrependSpace, Bytes, Metaspace>;

  void read(const JsonField& field);
  void read_metaspace(const JsonField& field);

  class Run;

  std::vector<Step> steps_;
};

}  // namespace spillway::text
