// Bounds the text that the steps of a tokenizer.json may write for one text.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace spillway::text {

// The longest text at any step, since spans are 32 bits.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Throws InputError for a text that is longer from the start.
inline void check_text_size(size_t bytes) {
  if (bytes > kMaxTextBytes)
    throw input_error("tokenizer", "expected texts of at most 1 GiB, got {} bytes; split the text", bytes);
}

// A hostile file could double a text at each of its steps. Texts that are refused here would take seconds and
// gigabytes; normal forms and replacements of published tokenizers stay far below. For one text and one thread.
class TextBudget {
 public:
  // Allows `free_bytes` whatever the text.
  explicit TextBudget(size_t text_bytes, size_t free_bytes = size_t{16} << 20)
      : text_bytes_(text_bytes),
        max_text_bytes_(std::min(kMaxTextBytes, free_bytes + kMaxGrowth * text_bytes)),
        max_total_bytes_(kFreeTexts * free_bytes + kMaxTotalGrowth * text_bytes),
        left_bytes_(max_total_bytes_) {}

  // Throws InputError if a text of so many bytes, which a step has made, is longer than allowed.
  void check(size_t bytes) const {
    if (bytes > max_text_bytes_) refuse("longer", max_text_bytes_);
  }
  // Does the same, and counts them together with all that was written for this text before.
  void spend(size_t bytes) {
    check(bytes);
    if (bytes > left_bytes_) refuse("more in all steps", max_total_bytes_);
    left_bytes_ -= bytes;
  }

 private:
  static constexpr size_t kMaxGrowth = 8, kMaxTotalGrowth = 64, kFreeTexts = 16;

  [[noreturn]] void refuse(const char* what, size_t max_bytes) const {
    throw input_error("tokenizer.json",
                      "expected steps that make at most {} bytes of a text of {}, got {}; compare normalizer, "
                      "pre_tokenizer and decoder with the published file",
                      max_bytes, text_bytes_, what);
  }

  size_t text_bytes_, max_text_bytes_, max_total_bytes_, left_bytes_;
};

}  // namespace spillway::text
