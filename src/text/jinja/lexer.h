// Splits a template into plain text and the tokens inside {{ }} and {% %}, with Jinja's white-space rules as
// transformers sets them: trim_blocks, lstrip_blocks, and one final newline of the source dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway::text::jinja {

struct Token {
  enum class Kind {
    kText,
    kBlockBegin,
    kBlockEnd,
    kOutputBegin,
    kOutputEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  std::string text;  // of kString: unescaped; of numbers: without underscores
  int line;
};

// Thrown for a template that is not well-formed, with its line (from 1).
struct SyntaxFailure {
  int line;
  std::string message;
};

// Returns the tokens; the last is kEnd. Throws SyntaxFailure.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace spillway::text::jinja
