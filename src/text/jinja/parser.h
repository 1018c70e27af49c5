// Parses template source into a tree.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace spillway::text::jinja {

// Throws SyntaxFailure, also for statements that chat templates do not use (extends, include, import, block), for
// filters and tests that do not exist, and for nesting too deep to walk.
[[nodiscard]] Template parse(std::string_view source);

}  // namespace spillway::text::jinja
