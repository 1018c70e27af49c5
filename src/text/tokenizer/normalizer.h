// The first step of a tokenizer: rewrites text. Nested sequences are one list of steps.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/precompiled.h"

namespace spillway::text {

// Immutable; any thread may use it with a scratch of its own.
class Normalizer {
 public:
  // `field` may be null: no steps. Throws InputError for unsupported steps (Nmt).
  explicit Normalizer(const JsonField& field) { read(field); }

  // Returns the normalized text: a view of `text` itself if nothing changes, else of `buffer`. Throws the budget's
  // errors. REQUIRES: valid UTF-8.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer, RegexScratch& scratch,
                                       TextBudget& budget) const;

 private:
  struct NormalForm {
    int options;  // of utf8proc_map
    bool composes;
  };
  struct Lowercase {};
  struct Drop {
    bool (*drops)(char32_t);
  };
  struct CleanText {};        // of BertNormalizer: no control characters, and all white space is a space
  struct SpaceIdeographs {};  // of BertNormalizer: a space on both sides of each
  struct Bytes {};            // GPT-2's byte characters
  struct Strip {
    bool left, right;
  };
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<NormalForm, Lowercase, Drop, CleanText, SpaceIdeographs, Bytes, Strip, Prepend, Replace,
                            Precompiled>;

  struct Output {
    std::string text;
    RegexScratch& scratch;
    const TextBudget& budget;
  };

  void read(const JsonField& field);
  void read_bert(const JsonField& field);
  static void run(const NormalForm& step, std::string_view text, Output& out);
  static void run(const Lowercase& step, std::string_view text, Output& out);
  static void run(const Drop& step, std::string_view text, Output& out);
  static void run(const CleanText& step, std::string_view text, Output& out);
  static void run(const SpaceIdeographs& step, std::string_view text, Output& out);
  static void run(const Precompiled& step, std::string_view text, Output& out);
  static void run(const Bytes& step, std::string_view text, Output& out);
  static void run(const Strip& step, std::string_view text, Output& out);
  static void run(const Prepend& step, std::string_view text, Output& out);
  static void run(const Replace& step, std::string_view text, Output& out);

  std::vector<Step> steps_;
};

}  // namespace spillway::text
