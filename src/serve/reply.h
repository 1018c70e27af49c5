// What a request is answered, between the scheduler's thread, which fills it, and the connection's, which sends it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/answer_text.h"
#include "serve/scheduler.h"

namespace spillway::serve {

struct TokenLogprob {
  std::string token;
  double logprob = 0;
};

// What is new of a choice.
struct Piece {
  int64_t choice = 0;
  std::string text;
  std::vector<TokenLogprob> logprobs;
  std::string finish_reason;  // of its last piece: "stop", "length", or "error" where the server failed or closed
};

// Any thread may call it.
class Reply {
 public:
  explicit Reply(int64_t choices) : open_(choices) {}

  // The pieces since the last call, as soon as there are some; none after `patience`.
  [[nodiscard]] std::vector<Piece> wait(std::chrono::milliseconds patience);
  // The last piece of every choice was taken.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] int64_t completion_tokens() const { return tokens_; }
  // Nobody reads it any more: its sequences end.
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

// A choice of a reply: tokens become text.
class ChoiceSink : public TokenSink {
 public:
  // Borrows the tokenizer.
  ChoiceSink(std::shared_ptr<Reply> reply, int64_t choice, const text::Tokenizer& tokenizer,
             std::vector<std::string> stops, bool logprobs)
      : reply_(std::move(reply)),
        choice_(choice),
        tokenizer_(tokenizer),
        text_(tokenizer, std::move(stops)),
        logprobs_(logprobs) {}

  [[nodiscard]] bool take(const train::Chosen& chosen) override;
  [[nodiscard]] bool is_wanted() const override { return !reply_->is_cancelled(); }
  void end(Ending ending) override;

 private:
  std::shared_ptr<Reply> reply_;
  int64_t choice_;
  const text::Tokenizer& tokenizer_;
  AnswerText text_;
  bool logprobs_, stopped_ = false;
};

}  // namespace spillway::serve
