#include "serve/reply.h"

#include <span>
#include <utility>

namespace spillway::serve {

std::vector<Piece> Reply::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !pieces_.empty(); });
  return std::exchange(pieces_, {});
}

bool Reply::is_complete() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0 && pieces_.empty();
}

void Reply::push(Piece piece, int64_t tokens) {
  {
    const std::lock_guard lock(mutex_);
    tokens_ += tokens;
    if (!piece.finish_reason.empty()) --open_;
    pieces_.push_back(std::move(piece));
  }
  changed_.notify_all();
}

bool ChoiceSink::take(const train::Chosen& chosen) {
  stopped_ = chosen.stopped;
  Piece piece{.choice = choice_};
  if (chosen.shown) {
    piece.text = text_.push(chosen.id);
    if (logprobs_) piece.logprobs.push_back({tokenizer_.decode(std::span(&chosen.id, 1), false), chosen.logprob});
  }
  // The token that stops was decoded, too: OpenAI counts it.
  reply_->push(std::move(piece), 1);
  return !text_.stopped();
}

void ChoiceSink::end(Ending ending) {
  Piece piece{.choice = choice_, .text = text_.finish()};
  if (text_.stopped() || stopped_) {
    piece.finish_reason = "stop";
  } else {
    piece.finish_reason = ending == Ending::kDone ? "length" : "error";
  }
  reply_->push(std::move(piece), 0);
}

}  // namespace spillway::serve
