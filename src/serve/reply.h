// The reply to a request, between the scheduler's thread, which fills it, and the connection's, which sends it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "serve/answer_text.h"
#include "serve/scheduler.h"
#include "serve/token_json.h"
#include "serve/tool_calls.h"

namespace spillway::serve {

// A new part of a choice.
struct Piece {
  int64_t choice = 0;
  std::string text;
  std::vector<ShownToken> logprobs;
  std::string finish_reason;  // of its last piece: "stop", "tool_calls", "length", or "error" where the server failed
                              // or closed
  std::vector<ToolCall> calls;
  int64_t first_call = 0;  // the number of calls of the choice before these
};

// Thread-safe.
class Reply {
 public:
  explicit Reply(int64_t choices) : open_(choices) {}

  // Waits for new pieces and returns those since the last call; none after `patience`.
  [[nodiscard]] std::vector<Piece> wait(std::chrono::milliseconds patience);
  // Returns true if the last piece of every choice was taken.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] int64_t completion_tokens() const { return tokens_; }
  // Nobody reads the reply any more: ends its sequences.
  void cancel() { cancelled_ = true; }
  [[nodiscard]] bool is_cancelled() const { return cancelled_; }

  void push(Piece piece, int64_t tokens);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Piece> pieces_;
  int64_t open_;
  std::atomic<int64_t> tokens_ = 0;
  std::atomic<bool> cancelled_ = false;
};

// The tools that an answer may call.
struct OfferedTools {
  ToolFormat format = ToolFormat::kNone;
  std::set<std::string, std::less<>> names = {};
  bool one_call = false;  // the answer ends with its first call
  std::string ids = {};   // what the ids of calls begin with
};

struct ChoiceOptions {
  std::vector<std::string> stops = {};
  bool logprobs = false;
  bool answers = true;                          // not the prompt alone
  std::string echoed = {};                      // the prompt's text, which the choice's begins with
  std::optional<int32_t> first_of_prompt = {};  // where the prompt's log-probabilities are wanted
  OfferedTools tools = {};
};

// Turns the tokens of a choice into pieces of a reply.
class ChoiceSink : public TokenSink {
 public:
  // Borrows the tokenizer. Echoed text is in the reply at once.
  ChoiceSink(std::shared_ptr<Reply> reply, int64_t choice, const text::Tokenizer& tokenizer, ChoiceOptions options);

  [[nodiscard]] bool take(const infer::Chosen& chosen) override;
  [[nodiscard]] bool is_wanted() const override { return !reply_->is_cancelled(); }
  void end(Ending ending) override;

 private:
  void add_calls(ToolCallReader::Read read, Piece& piece);

  std::shared_ptr<Reply> reply_;
  int64_t choice_;
  const text::Tokenizer& tokenizer_;
  AnswerText text_;
  OfferedTools tools_;
  ToolCallReader reader_;
  int64_t calls_ = 0;
  bool logprobs_, answers_, stopped_ = false;
};

}  // namespace spillway::serve
