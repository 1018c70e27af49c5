// OpenAI's interface without HTTP: converts requests for the scheduler, and answers to JSON.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer_grammars.h"
#include "serve/reply.h"
#include "serve/request.h"
#include "serve/scheduler.h"
#include "text/chat_template.h"
#include "text/left_out_warnings.h"
#include "text/tokenizer.h"

namespace spillway::serve {

struct ServedModel {
  std::string name;
  std::optional<text::ChatTemplates> chats;  // none: /v1/chat/completions is refused
  int64_t context = 0;                       // tokens of a request at most, its answer included
  int64_t vocab_size = 0;
  Choice defaults;  // of requests that do not say
};

// An answer in progress.
struct Conversation {
  bool is_chat = false;
  std::string id;
  int64_t created = 0;  // seconds since 1970
  GenerationRequest request;
  int64_t prompt_tokens = 0;
  std::shared_ptr<Reply> reply;
};

// Thread-safe. Borrows all but the model.
class Api {
 public:
  Api(ServedModel model, const text::Tokenizer& tokenizer, Scheduler& scheduler);

  // Reads the body of a request and submits its choices to the scheduler. Throws RequestError: 400 for an invalid
  // request, 503 if too many wait.
  [[nodiscard]] Conversation begin(std::string_view body, bool is_chat);

  // Returns the whole answer, made of all pieces in their order, after Reply::is_complete(). Throws RequestError if the
  // server failed or closed before the answer was complete.
  [[nodiscard]] nlohmann::ordered_json whole(const Conversation& conversation, const std::vector<Piece>& pieces) const;

  // Return the answer as server-sent events: those before the first piece, those of a piece, and those at the end.
  [[nodiscard]] std::string first_events(const Conversation& conversation) const;
  [[nodiscard]] std::string events(const Conversation& conversation, const Piece& piece) const;
  [[nodiscard]] std::string last_events(const Conversation& conversation) const;

  [[nodiscard]] nlohmann::ordered_json models() const;
  [[nodiscard]] nlohmann::ordered_json model() const;
  [[nodiscard]] nlohmann::ordered_json health() const;
  [[nodiscard]] const std::string& name() const { return model_.name; }

 private:
  struct ReadPrompt {
    std::vector<int32_t> ids;
    std::string text = {};  // where it came as one, or is to be echoed
  };

  [[nodiscard]] std::vector<ReadPrompt> prompts_of(const GenerationRequest& request, bool is_chat) const;
  void check(const std::vector<int32_t>& ids, const char* param) const;
  void check(const infer::Penalties& penalties) const;
  [[nodiscard]] OfferedTools offered_tools(const GenerationRequest& request, uint64_t count) const;
  [[nodiscard]] std::shared_ptr<text::TokenGrammar> grammar_of(const GenerationRequest& request);
  void check_count(int64_t prompts, int64_t choices) const;

  ServedModel model_;
  const text::Tokenizer& tokenizer_;
  Scheduler& scheduler_;
  int64_t started_;
  AnswerGrammars grammars_;
  mutable text::LeftOutWarnings warnings_;
  std::atomic<uint64_t> count_ = 0;
};

}  // namespace spillway::serve
