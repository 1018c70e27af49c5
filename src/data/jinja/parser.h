// Template source to tree.
#pragma once

#include <string_view>

#include "data/jinja/ast.h"
#include "data/jinja/lexer.h"

namespace spillway::data::jinja {

// Throws SyntaxFailure, also for statements that chat templates have no use for (extends, include, import, block),
// for filters and tests that do not exist, and for nesting too deep to walk.
[[nodiscard]] Template parse(std::string_view source);

}  // namespace spillway::data::jinja
