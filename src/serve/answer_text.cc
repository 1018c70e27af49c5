#include "serve/answer_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace spillway::serve {
namespace {

// The longest end of `text` that `stop` begins with, without being all of it.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string AnswerText::add(const std::string& text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos, held = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    held = std::max(held, overlap(held_, stop));
  }
  if (first != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, first);
  }
  std::string certain = held_.substr(0, held_.size() - held);
  held_.erase(0, certain.size());
  return certain;
}

std::string AnswerText::push(int32_t id) {
  if (std::find(shown_.begin(), shown_.end(), id) == shown_.end()) return add(decoder_.push(id));
  return add(decoder_.finish() + tokenizer_->id_to_token(id));
}

std::string AnswerText::finish() {
  std::string certain = add(decoder_.finish());
  return stopped_ ? certain : certain + std::exchange(held_, {});
}

}  // namespace spillway::serve
