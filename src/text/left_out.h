// The parts of a conversation that a chat template leaves out of the text it renders.
#pragma once

#include <array>
#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace spillway::text {

// The keys of a message that hold its thoughts.
inline constexpr std::array<const char*, 3> kReasoningKeys = {"reasoning_content", "thinking", "reasoning"};
// A part of a message. A thought is what stands in a key of kReasoningKeys or between <think> tags; media are images,
// sounds and the like, which no text shows. A tool is the description of one, beside the messages.
enum class MessagePart { kText, kThought, kToolCall, kMedia, kTool };

struct LeftOut {
  size_t message = 0;  // into ChatInput::messages; their number for a part that is in none of them
  MessagePart part = MessagePart::kText;
  bool whole = false;  // the text shows nothing of the message

  bool operator==(const LeftOut&) const = default;
};

// Returns the parts of the messages, then the tools, that `text`, which render_chat() made of `input`, shows nothing
// of, in order. Texts of a list of contents are parts by themselves, and so are tool calls. What a template trims,
// escapes, moves or turns into JSON counts as shown. Takes a search through `text`; where that does not find all in
// order, one more rendering, with marks in the place of their texts. REQUIRES: render_chat() takes the input.
[[nodiscard]] std::vector<LeftOut> left_out(const ChatTemplate& chat_template, const ChatInput& input,
                                            std::string_view text, const std::optional<std::tm>& now = {});

// Returns the kind of a part of a list of contents that has no text under `text`, `content` or `value`: an image, a
// tool call ("tool_use"), a thought ("thinking"), or a text of another name ("refusal", "json"). Returns nothing for a
// part that has such a text, or that holds nothing.
[[nodiscard]] std::optional<MessagePart> part_without_text(const nlohmann::ordered_json& part);

}  // namespace spillway::text
