// The second step of a tokenizer: text to words. Nested sequences are one list of steps; each step cuts the words of
// the one before, and may rewrite them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/tokenizer/json_field.h"
#include "data/tokenizer/pattern.h"

namespace spillway::data {

// Words as spans of one text, in order.
struct Words {
  struct Span {
    uint32_t begin, end;
    bool starts_text;  // begins where the user's text begins
  };
  std::string text;
  std::vector<Span> spans;

  [[nodiscard]] std::string_view word(const Span& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
};

// What becomes of the matches that words are cut at.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Immutable; any thread may use it with `Words` and a scratch of its own.
class PreTokenizer {
 public:
  // `field` may be null: a text is one word. Throws InputError for steps that are not read
  // (UnicodeScripts, FixedLength).
  explicit PreTokenizer(const JsonField& field) { read(field); }

  // Replaces `words` by the words of `text`; none is empty. `starts_text`: nothing of the user's text stands before it.
  // Throws InputError where a step makes the text too long. REQUIRES: valid UTF-8, at most kMaxTextBytes.
  void apply(std::string_view text, bool starts_text, Words& words, RegexScratch& scratch) const;

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

  static void run(const SplitPattern& step, Words& words, RegexScratch& scratch);
  static void run(const SplitCharacters& step, Words& words, RegexScratch& scratch);
  static void run(const PrependSpace& step, Words& words, RegexScratch& scratch);
  static void run(const Bytes& step, Words& words, RegexScratch& scratch);
  static void run(const Metaspace& step, Words& words, RegexScratch& scratch);

  std::vector<Step> steps_;
};

}  // namespace spillway::data
