// A conversation with a model: the messages so far, and the model's next answer.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/generation/decoder.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace spillway {

struct ChatOptions {
  infer::Sampling sampling;
  infer::Penalties penalties = {};
  int64_t context = 0;     // tokens that the model sees at most, its answer included
  int64_t vocab_size = 0;  // the model's
  std::string model;       // its folder, for messages
};

enum class AnswerEnd { kStopped, kLength, kContext, kInterrupted };

struct ChatAnswer {
  AnswerEnd end = AnswerEnd::kStopped;
  int64_t tokens = 0;
  int64_t newly_forgotten =
      0;  // messages, from the oldest on, that the model was not shown this time for the first time
};

// Borrows its arguments.
class ChatSession {
 public:
  ChatSession(const text::Tokenizer& tokenizer, const text::ChatTemplates& chats, infer::Decoder& decoder,
              ChatOptions options);

  // Replaces the system message; an empty text removes it.
  void set_system(const std::string& text);
  // Forgets all messages except the system message.
  void reset();

  // Sends a message of the user's and shows the answer as it grows, in whole characters. Both become part of the
  // conversation. Calls `goes_on` between tokens; an answer that it cuts is kept as far as it came, unless that is
  // nothing. If the conversation leaves too little room in the context, the model is not shown the oldest messages, up
  // to one of the user's; the system message stays. Throws InputError if the text alone does not fit, or the template
  // rejects it; the conversation is then unchanged.
  ChatAnswer ask(const std::string& text, const std::function<void(std::string_view)>& show,
                 const std::function<bool()>& goes_on);

  // Returns the whole conversation as a list of messages.
  [[nodiscard]] nlohmann::ordered_json messages() const;

 private:
  [[nodiscard]] std::vector<int32_t> prompt_from(size_t first) const;
  [[nodiscard]] std::vector<int32_t> fitting_prompt(size_t& first) const;
  void begin(const infer::Prompt& prompt);
  ChatAnswer answer(const std::function<void(std::string_view)>& show, const std::function<bool()>& goes_on,
                    std::string& said);

  const text::Tokenizer& tokenizer_;
  const text::ChatTemplates& chats_;
  infer::Decoder& decoder_;
  ChatOptions options_;
  mutable text::LeftOutWarnings warnings_;
  std::string system_;
  std::vector<nlohmann::ordered_json> turns_;  // messages without the system's
  size_t first_shown_ = 0;                     // of turns_
  std::optional<infer::SequenceId> sequence_;
};

}  // namespace spillway
