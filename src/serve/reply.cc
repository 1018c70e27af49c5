#include "serve/reply.h"

#include <fmt/format.h>

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

ChoiceSink::ChoiceSink(std::shared_ptr<Reply> reply, int64_t choice, const text::Tokenizer& tokenizer,
                       ChoiceOptions options)
    : reply_(std::move(reply)),
      choice_(choice),
      tokenizer_(tokenizer),
      text_(tokenizer, std::move(options.stops), true, special_marks(tokenizer, options.tools.format)),
      tools_(std::move(options.tools)),
      reader_(tools_.format, tools_.names),
      logprobs_(options.logprobs),
      answers_(options.answers) {
  Piece piece{.choice = choice_, .text = std::move(options.echoed)};
  if (options.first_of_prompt) piece.logprobs.push_back(shown_token(tokenizer_, *options.first_of_prompt));
  if (!piece.text.empty() || !piece.logprobs.empty()) reply_->push(std::move(piece), 0);
}

bool ChoiceSink::take(const infer::Chosen& chosen) {
  if (!chosen.is_of_prompt && !answers_) return false;
  stopped_ = chosen.stopped;
  Piece piece{.choice = choice_};
  if (chosen.shown) {
    if (!chosen.is_of_prompt) add_calls(reader_.push(text_.push(chosen.id)), piece);
    if (logprobs_) piece.logprobs.push_back(shown_token(tokenizer_, chosen.id, chosen.logprob, chosen.top));
  }
  // The token that stops was decoded, too: OpenAI counts it.
  reply_->push(std::move(piece), chosen.is_of_prompt ? 0 : 1);
  return !text_.stopped() && !stopped_;
}

// Adds what is certain to the piece. Each call has an id of nine characters, as Mistral's templates want it.
void ChoiceSink::add_calls(ToolCallReader::Read read, Piece& piece) {
  piece.text += read.content;
  piece.first_call = calls_;
  for (ToolCall& call : read.calls) {
    if (tools_.one_call && calls_ > 0) break;
    call.id = fmt::format("{}{:02x}{:02x}", tools_.ids, choice_ & 0xff, calls_++ & 0xff);
    piece.calls.push_back(std::move(call));
  }
  if (tools_.one_call && calls_ > 0) stopped_ = true;
}

void ChoiceSink::end(Ending ending) {
  Piece piece{.choice = choice_};
  ToolCallReader::Read read = reader_.push(text_.finish()), rest = reader_.finish();
  read.content += rest.content;
  read.calls.insert(read.calls.end(), rest.calls.begin(), rest.calls.end());
  add_calls(std::move(read), piece);
  if (text_.stopped() || stopped_) {
    piece.finish_reason = calls_ > 0 ? "tool_calls" : "stop";
  } else {
    piece.finish_reason = ending == Ending::kDone ? "length" : "error";
  }
  reply_->push(std::move(piece), 0);
}

}  // namespace spillway::serve
