// Kinds of what chat templates leave out (text/left_out.h), for those who count them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace spillway::text {

// Texts by the role of their message, what is no text, and the description of a tool, which is in no message.
enum class LeftOutKind {
  kSystem,
  kDeveloper,
  kUser,
  kAssistant,
  kTool,
  kOther,
  kThoughts,
  kToolCalls,
  kMedia,
  kTools,
};
constexpr size_t kLeftOutKinds = 10;

// Returns "system message" or, of several, "system messages".
[[nodiscard]] std::string name_of(LeftOutKind kind, int64_t count);

}  // namespace spillway::text
