#include "text/left_out_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

LeftOutKind kind_of(const LeftOut& part, const Json& messages) {
  switch (part.part) {
    case MessagePart::kThought:
      return LeftOutKind::kThoughts;
    case MessagePart::kToolCall:
      return LeftOutKind::kToolCalls;
    case MessagePart::kMedia:
      return LeftOutKind::kMedia;
    case MessagePart::kTool:
      return LeftOutKind::kTools;
    case MessagePart::kText:
      break;
  }
  constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
  const Json& message = messages[part.message];
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return LeftOutKind::kOther;
  return static_cast<LeftOutKind>(std::find(kRoles.begin(), kRoles.end(), role->get_ref<const std::string&>()) -
                                  kRoles.begin());
}

std::string name_of(LeftOutKind kind, int64_t count) {
  constexpr std::array<std::string_view, kLeftOutKinds> kNames = {"system message",
                                                                  "developer message",
                                                                  "user message",
                                                                  "assistant message",
                                                                  "tool message",
                                                                  "message of another role",
                                                                  "thought",
                                                                  "tool call",
                                                                  "image, sound or the like",
                                                                  "description of a tool"};
  if (count == 1) return std::string(kNames[static_cast<size_t>(kind)]);
  if (kind == LeftOutKind::kOther) return "messages of other roles";
  if (kind == LeftOutKind::kMedia) return "images, sounds or the like";
  if (kind == LeftOutKind::kTools) return "descriptions of tools";
  return fmt::format("{}s", kNames[static_cast<size_t>(kind)]);
}

std::string message_name(const Json& messages, size_t index) {
  const Json& message = messages[index];
  const bool has_role = message.is_object() && message.contains("role") && message["role"].is_string();
  return fmt::format("message {}{}", index + 1,
                     has_role ? fmt::format(" ({})", quote(message["role"].get_ref<const std::string&>())) : "");
}

void LeftOutWarnings::check(const ChatTemplate& chat_template, const ChatInput& input, std::string_view text,
                            std::string_view where) {
  const std::vector<LeftOut> parts = left_out(chat_template, input, text);
  for (const LeftOut& part : parts) {
    if (part.message + 1 != input.messages.size() || (!part.whole && part.part == MessagePart::kThought)) continue;
    if (part.part == MessagePart::kMedia)
      throw input_error(where, "expected text in {}, which is to be answered, got an {}; leave it out",
                        message_name(input.messages, part.message), name_of(LeftOutKind::kMedia, 1));
    throw input_error(where,
                      "expected a chat template that shows {}, which is to be answered, got one that leaves it out; "
                      "give it a role that the template knows",
                      message_name(input.messages, part.message));
  }
  say(parts, input.messages, where);
}

void LeftOutWarnings::warn(const ChatTemplate& chat_template, const ChatInput& input, std::string_view text,
                           std::string_view where) {
  say(left_out(chat_template, input, text), input.messages, where);
}

void LeftOutWarnings::say(const std::vector<LeftOut>& parts, const Json& messages, std::string_view where) {
  std::array<int64_t, kLeftOutKinds> counts{};
  for (const LeftOut& part : parts) {
    if (part.part != MessagePart::kThought) ++counts[static_cast<size_t>(kind_of(part, messages))];
  }
  for (size_t i = 0; i < kLeftOutKinds; ++i) {
    const unsigned bit = 1U << i;
    if (counts[i] == 0 || (said_.fetch_or(bit) & bit) != 0) continue;
    log_warning("{}: the chat template leaves out {} {}, which the model does not see", where, counts[i],
                name_of(static_cast<LeftOutKind>(i), counts[i]));
  }
}

}  // namespace spillway::text
