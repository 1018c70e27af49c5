// The names of what chat templates leave out, and warnings of it.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "text/left_out.h"
#include "text/left_out_kinds.h"

namespace spillway::text {

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
