#include "text/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "base/error.h"

namespace spillway::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxJsonNesting = 64;

// Returns a score as the library's JSON parser reads it, which may be the neighbour of the nearest double: of as many
// digits as fit into 64 bits it divides or multiplies the integer by a power of ten.
double score_value(const std::string& text) {
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool full = false, behind_point = false;
  size_t i = text.starts_with('-') ? 1 : 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      behind_point = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[i] - '0');
    full = full || digits > (std::numeric_limits<uint64_t>::max() - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    exponent += (full ? 1 : 0) - (behind_point ? 1 : 0);
  }
  if (i < text.size()) exponent += std::clamp(std::strtol(text.data() + i + 1, nullptr, 10), -100'000L, 100'000L);
  auto value = static_cast<double>(digits);
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  const double power = std::pow(10.0, static_cast<double>(std::min<int64_t>(std::abs(exponent), 308)));
  value = exponent < 0 ? value / power : value * power;
  return text.starts_with('-') ? -value : value;
}

// Receives the parser's events. `open_` holds the containers on the way to the current place; containers of the
// vocabulary and the merges are streamed and stand there as null.
class Reader : public nlohmann::json_sax<json> {
 public:
  Reader(TokenizerFile& file, std::string_view where) : file_(file), where_(where) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override {
    if (part_ == kPiece) return piece_score(static_cast<double>(v));
    return part_ == kVocab ? vocab_id(v) : value(v);
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (part_ == kPiece) return piece_score(static_cast<double>(v));
    constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
    return part_ == kVocab ? vocab_id(static_cast<int64_t>(v > kLargest ? kLargest : v)) : value(v);
  }
  bool number_float(number_float_t v, const string_t& text) override {
    return part_ == kPiece ? piece_score(score_value(text)) : value(v);
  }
  bool binary(binary_t&) override { return true; }  // JSON text has none

  bool string(string_t& v) override {
    if (part_ == kMerges) return merge_line(v);
    if (part_ == kPair) {
      if (pair_size_ == 0) {
        file_.merges.emplace_back(std::move(v), "");
      } else if (pair_size_ == 1) {
        file_.merges.back().second = std::move(v);
      }
      ++pair_size_;
      return true;
    }
    if (part_ == kPiece && pair_size_ == 0) {
      file_.vocab.emplace_back(std::move(v), static_cast<int64_t>(file_.vocab.size()));
      ++pair_size_;
      return true;
    }
    return value(std::move(v));
  }

  bool key(string_t& v) override {
    key_ = std::move(v);
    return true;
  }

  bool start_object(std::size_t) override {
    if (part_ == kRest && in_model() && key_ == "vocab") {
      part_ = kVocab;
      file_.has_vocab = true;
      return true;
    }
    return start(json::object());
  }
  bool end_object() override { return end(); }

  bool start_array(std::size_t) override {
    if (part_ == kMerges) {
      part_ = kPair;
      pair_size_ = 0;
      return true;
    }
    if (part_ == kPieces) {
      part_ = kPiece;
      pair_size_ = 0;
      return true;
    }
    if (part_ == kRest && in_model() && key_ == "vocab") {
      part_ = kPieces;
      return true;
    }
    if (part_ == kRest && in_model() && key_ == "merges") {
      part_ = kMerges;
      file_.has_merges = true;
      return true;
    }
    return start(json::array());
  }
  bool end_array() override {
    if (part_ == kPair && pair_size_ != 2) throw bad_merge(file_.merges.size() - (pair_size_ > 0 ? 1 : 0));
    if (part_ == kPair) {
      part_ = kMerges;
      return true;
    }
    if (part_ == kPiece && pair_size_ != 2) throw bad_piece();
    if (part_ == kPiece) {
      part_ = kPieces;
      return true;
    }
    return end();
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw input_error(where_, "expected JSON, got a syntax error at byte {}; fetch the file again", position);
  }

 private:
  enum Part { kRest, kVocab, kPieces, kPiece, kMerges, kPair };

  // Returns true if the current place is a member of the top-level member "model".
  [[nodiscard]] bool in_model() const { return open_.size() == 2 && open_[1] == model_; }

  InputError bad_merge(size_t index) const {
    return input_error(fmt::format("{}: model.merges[{}]", where_, index),
                       "expected a pair of tokens, got something else; compare with the published file");
  }

  [[nodiscard]] InputError bad_piece() const {
    return input_error(fmt::format("{}: model.vocab[{}]", where_, file_.scores.size()),
                       "expected a piece and its score, got something else; compare with the published file");
  }

  bool piece_score(double score) {
    if (pair_size_ != 1 || !std::isfinite(score)) throw bad_piece();
    file_.scores.push_back(score);
    ++pair_size_;
    return true;
  }

  bool merge_line(const std::string& line) {
    if (line.starts_with("#version")) return true;
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      throw bad_merge(file_.merges.size());
    file_.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    return true;
  }

  bool vocab_id(int64_t id) {
    file_.vocab.emplace_back(std::move(key_), id);
    return true;
  }

  json* place(json value) {
    if (open_.empty()) {
      file_.rest = std::move(value);
      return &file_.rest;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    json& member = parent[key_];
    member = std::move(value);
    return &member;
  }

  bool value(json v) {
    if (part_ == kVocab) {
      throw input_error(fmt::format("{}: model.vocab", where_),
                        "expected an integer for each token, got {} for token {}; "
                        "compare with the published file",
                        v.type_name(), json(key_).dump(-1, ' ', true));
    }
    if (part_ == kPieces || part_ == kPiece) throw bad_piece();
    if (part_ != kRest) throw bad_merge(file_.merges.size());
    place(std::move(v));
    return true;
  }

  bool start(json container) {
    if (part_ == kVocab || part_ == kPieces || part_ == kPiece) return value(std::move(container));
    if (part_ != kRest) throw bad_merge(file_.merges.size());
    if (open_.size() >= kMaxJsonNesting) {
      throw input_error(where_, "expected at most {} nested values, got more; fetch the file again", kMaxJsonNesting);
    }
    const bool is_model = open_.size() == 1 && open_[0]->is_object() && key_ == "model";
    open_.push_back(place(std::move(container)));
    if (is_model) model_ = open_.back();
    return true;
  }

  bool end() {
    if (part_ != kRest) {
      part_ = kRest;
      return true;
    }
    open_.pop_back();
    return true;
  }

  TokenizerFile& file_;
  std::string_view where_;
  std::vector<json*> open_;
  json* model_ = nullptr;
  std::string key_;
  Part part_ = kRest;
  int pair_size_ = 0;
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text, std::string_view where) {
  TokenizerFile file;
  Reader reader(file, where);
  json::sax_parse(text, &reader);
  if (!file.rest.is_object()) {
    throw input_error(where, "expected a JSON object, got {}; fetch the file again", file.rest.type_name());
  }
  return file;
}

}  // namespace spillway::text
