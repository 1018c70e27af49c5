// Regular expressions with the meaning of Python's `re`, matched by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace spillway::text {

// What Python does not have (\K, \h, recursion, verbs, ...) is refused, and what both have with another meaning (\Z,
// \v,
// {,n}, [[:x:]]) is Python's. Differences that are left: \s does not know U+001C to U+001F, and a group that is
// repeated after an alternative keeps what it matched last. Texts are UTF-8. Thread rule: may be shared.
class PythonRegex {
 public:
  // Throws InputError at `where` for what is no such expression.
  PythonRegex(std::string_view pattern, std::string_view where);

  // re.findall: of each match its groups, empty where one took no part; where the expression has none, the match
  // itself. REQUIRES, as of removed(): `text` is valid UTF-8. Throws InputError where the expression backtracks without
  // end.
  [[nodiscard]] std::vector<std::vector<std::string>> find_all(std::string_view text) const;
  // re.sub("", text): the text without the matches.
  [[nodiscard]] std::string removed(std::string_view text) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  // Calls found(offsets, groups) for each match, from left to right, where Python finds it.
  template <typename Found>
  void each(std::string_view text, const Found& found) const;

  std::string where_;
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace spillway::text
