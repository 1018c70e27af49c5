// Regular expressions with the meaning of Python's `re`, matched by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;

namespace spillway::text {

// Syntax that Python does not have (\K, \h, recursion, verbs, ...) is refused, and syntax that both have with another
// meaning (\Z, \v, {,n}, [[:x:]]) has Python's. Remaining differences: \s does not know U+001C to U+001F, and a group
// that is repeated after an alternative keeps its last match. Texts are UTF-8. May be shared by threads.
class PythonRegex {
 public:
  // Throws InputError at `where` if the pattern is no such expression.
  PythonRegex(std::string_view pattern, std::string_view where);

  // Does re.findall: returns for each match its groups, empty if one took no part; if the expression has none, the
  // match itself. REQUIRES, also for removed(): `text` is valid UTF-8. Throws InputError if the expression backtracks
  // without end.
  [[nodiscard]] std::vector<std::vector<std::string>> find_all(std::string_view text) const;
  // Does re.sub("", text): returns the text without the matches.
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
