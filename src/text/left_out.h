// The parts of a conversation that a chat template leaves out of the text it renders.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/left_out_kinds.h"

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

// Returns the kind of a part of `messages`.
[[nodiscard]] LeftOutKind kind_of(const LeftOut& part, const nlohmann::ordered_json& messages);
// Returns 'message 2 ("bot")', for errors.
[[nodiscard]] std::string message_name(const nlohmann::ordered_json& messages, size_t index);

// Speaks for conversations that are to be answered. Any number of threads.
class LeftOutWarnings {
 public:
  // Throws InputError at `where` if the template leaves out text or tool calls of the last message, which is to be
  // answered. Of other messages, logs one warning for each kind in the lifetime of this object. Thoughts are not
  // spoken of: templates leave out those of earlier turns on purpose.
  void check(const ChatTemplate& chat_template, const ChatInput& input, std::string_view text, std::string_view where);
  // The same without a last message that must be there, for texts that are shown and not answered.
  void warn(const ChatTemplate& chat_template, const ChatInput& input, std::string_view text, std::string_view where);

 private:
  void say(const std::vector<LeftOut>& parts, const nlohmann::ordered_json& messages, std::string_view where);

  std::atomic<unsigned> said_{0};  // a bit for each kind
};

}  // namespace spillway::text
