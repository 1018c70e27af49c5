// The last step: converts tokens to text. Nested sequences are one list of steps; each maps a list of strings to
// another.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/pattern.h"

namespace spillway::text {

// Immutable; any thread may use it.
class Decoder {
 public:
  // `field` may be null: tokens are joined by spaces. Throws InputError for unsupported steps (CTC, ...).
  explicit Decoder(const JsonField& field) : present_(!field.is_null()) { read(field); }

  [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;
  // Returns the bytes of the text of `token` by itself, a space before a word included; maybe half a character.
  [[nodiscard]] std::string bytes(const std::string& token) const;
  // Returns true if later tokens may still change how `token` reads: a byte of a character that is not complete.
  [[nodiscard]] bool is_open(const std::string& token) const;

 private:
  struct Bytes {};  // GPT-2's byte characters
  struct ByteFallback {};
  struct Fuse {};
  struct Strip {
    char32_t content;
    int64_t start, stop;  // at most so many characters from either end of each token
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Metaspace {
    char32_t replacement;
    bool drop_first;
  };
  struct WordSuffix {
    std::string suffix;
  };
  struct WordPrefix {  // of WordPiece
    std::string prefix;
    bool cleans_up;
  };
  using Step = std::variant<Bytes, ByteFallback, Fuse, Strip, Replace, Metaspace, WordSuffix, WordPrefix>;
  using Tokens = std::vector<std::string>;

  template <typename Kind>
  [[nodiscard]] bool has_step() const;
  void read(const JsonField& field);
  static void run(const Bytes& step, Tokens& tokens, TextBudget& budget);
  static void run(const ByteFallback& step, Tokens& tokens, TextBudget& budget);
  static void run(const Fuse& step, Tokens& tokens, TextBudget& budget);
  static void run(const Strip& step, Tokens& tokens, TextBudget& budget);
  static void run(const Replace& step, Tokens& tokens, TextBudget& budget);
  static void run(const Metaspace& step, Tokens& tokens, TextBudget& budget);
  static void run(const WordSuffix& step, Tokens& tokens, TextBudget& budget);
  static void run(const WordPrefix& step, Tokens& tokens, TextBudget& budget);

  bool present_;
  std::vector<Step> steps_;
};

}  // namespace spillway::text
