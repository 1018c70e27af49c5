#include "text/tokenizer/decoder.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "text/tokenizer/byte_fallback.h"
#include "text/tokenizer/byte_level.h"

namespace spillway::text {
namespace {

constexpr std::string_view kSentencePieceSpace = "\xE2\x96\x81";  // U+2581

char32_t read_character(const JsonField& field) {
  size_t i = 0;
  return next_code_point(field.character(), i);
}

// Cleans a token that follows a space, from the space that English does not write there.
std::string cleaned(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{{" .", "."},
                                                                                     {" ?", "?"},
                                                                                     {" !", "!"},
                                                                                     {" ,", ","},
                                                                                     {" ' ", "'"},
                                                                                     {" n't", "n't"},
                                                                                     {" 'm", "'m"},
                                                                                     {" do not", " don't"},
                                                                                     {" 's", "'s"},
                                                                                     {" 've", "'ve"},
                                                                                     {" 're", "'re"}}};
  for (const auto& [spelt, wanted] : kRules) {
    for (size_t at = 0; (at = text.find(spelt, at)) != std::string::npos; at += wanted.size()) {
      text.replace(at, spelt.size(), wanted);
    }
  }
  return text;
}

std::string joined(const std::vector<std::string>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), std::string());
}

}  // namespace

void Decoder::read(const JsonField& field) {
  if (field.is_null()) return;
  const std::string& type = field["type"].string();
  constexpr int64_t kMax = 1'000'000;
  if (type == "Sequence") {
    for (const JsonField& step : field["decoders"].elements()) read(step);
  } else if (type == "ByteLevel") {
    steps_.push_back(Bytes{});
  } else if (type == "ByteFallback") {
    steps_.push_back(ByteFallback{});
  } else if (type == "Fuse") {
    steps_.push_back(Fuse{});
  } else if (type == "Strip") {
    steps_.push_back(
        Strip{read_character(field["content"]), field["start"].integer(0, kMax), field["stop"].integer(0, kMax)});
  } else if (type == "Replace") {
    steps_.push_back(Replace{Pattern(field["pattern"]), field["content"].string()});
  } else if (type == "Metaspace") {
    const bool never = field["prepend_scheme"].string_or("") == "never" ||
                       (field["prepend_scheme"].is_null() && !field["add_prefix_space"].boolean_or(true));
    steps_.push_back(Metaspace{read_character(field["replacement"]), !never});
  } else if (type == "BPEDecoder") {
    steps_.push_back(WordSuffix{field["suffix"].string_or("</w>")});
  } else if (type == "WordPiece") {
    steps_.push_back(WordPrefix{field["prefix"].string_or("##"), field["cleanup"].boolean_or(true)});
  } else {
    throw field["type"].bad(
        "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, BPEDecoder, WordPiece or Sequence",
        "use a model with such a tokenizer");
  }
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (!present_) {
    std::string result;
    for (size_t i = 0; i < tokens.size(); ++i) result += (i > 0 ? " " : "") + tokens[i];
    return result;
  }
  const auto count_bytes = [&] {
    return std::accumulate(tokens.begin(), tokens.end(), size_t{0},
                           [](size_t bytes, const std::string& token) { return bytes + token.size(); });
  };
  TextBudget budget(count_bytes());
  for (const Step& step : steps_) {
    std::visit([&](const auto& kind) { run(kind, tokens, budget); }, step);
    budget.spend(count_bytes());
  }
  return joined(tokens);
}

template <typename Kind>
bool Decoder::has_step() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return std::holds_alternative<Kind>(step); });
}

bool Decoder::is_open(const std::string& token) const {
  return has_step<ByteFallback>() && byte_of_token(token).has_value();
}

std::string Decoder::bytes(const std::string& token) const {
  std::string result;
  if (has_step<Bytes>()) {
    append_character_bytes(result, token);
    return result;
  }
  if (has_step<ByteFallback>()) {
    if (const std::optional<char> byte = byte_of_token(token)) return {*byte};
  }
  RegexScratch scratch;
  Pattern(std::string(kSentencePieceSpace)).replace(token, " ", scratch, TextBudget(token.size()), result);
  return result;
}

void Decoder::run(const Bytes&, Tokens& tokens, TextBudget&) {
  std::string bytes;
  for (const std::string& token : tokens) append_character_bytes(bytes, token);
  tokens = {is_valid_utf8(bytes) ? std::move(bytes) : repair_utf8(bytes)};
}

// A run of byte tokens is text as a whole or not at all.
void Decoder::run(const ByteFallback&, Tokens& tokens, TextBudget&) {
  Tokens result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes))
      result.push_back(bytes);
    else
      result.insert(result.end(), bytes.size(), std::string(kReplacementCharacter));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = byte_of_token(token)) {
      bytes.push_back(*byte);
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(result);
}

void Decoder::run(const Fuse&, Tokens& tokens, TextBudget&) { tokens = {joined(tokens)}; }

void Decoder::run(const Strip& step, Tokens& tokens, TextBudget&) {
  for (std::string& token : tokens) {
    const auto is_content = [&](size_t at) { return next_code_point(token, at) == step.content; };
    size_t begin = 0, end = token.size();
    for (int64_t i = 0; i < step.start && begin < end && is_content(begin); ++i) {
      begin += utf8_length(static_cast<unsigned char>(token[begin]));
    }
    for (int64_t i = 0; i < step.stop && end > begin && is_content(previous_character(token, end)); ++i) {
      end = previous_character(token, end);
    }
    token = token.substr(begin, end - begin);
  }
}

void Decoder::run(const Replace& step, Tokens& tokens, TextBudget& budget) {
  RegexScratch scratch;
  std::string replaced;
  size_t bytes = 0;
  for (std::string& token : tokens) {
    replaced.clear();
    step.pattern.replace(token, step.content, scratch, budget, replaced);
    token.swap(replaced);
    bytes += token.size();
    budget.check(bytes);
  }
}

void Decoder::run(const Metaspace& step, Tokens& tokens, TextBudget&) {
  std::string replaced;
  for (size_t t = 0; t < tokens.size(); ++t) {
    replaced.clear();
    for (size_t i = 0; i < tokens[t].size();) {
      const char32_t c = next_code_point(tokens[t], i);
      if (c != step.replacement)
        append_utf8(replaced, c);
      else if (t > 0 || !step.drop_first)
        replaced.push_back(' ');
    }
    tokens[t] = replaced;
  }
}

void Decoder::run(const WordSuffix& step, Tokens& tokens, TextBudget& budget) {
  if (step.suffix.empty()) return;
  const Pattern suffix(step.suffix);
  RegexScratch scratch;
  std::string replaced;
  for (size_t t = 0; t < tokens.size(); ++t) {
    replaced.clear();
    suffix.replace(tokens[t], t + 1 < tokens.size() ? " " : "", scratch, budget, replaced);
    tokens[t] = replaced;
  }
}

void Decoder::run(const WordPrefix& step, Tokens& tokens, TextBudget&) {
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (t > 0) tokens[t] = tokens[t].starts_with(step.prefix) ? tokens[t].substr(step.prefix.size()) : " " + tokens[t];
    if (step.cleans_up) tokens[t] = cleaned(std::move(tokens[t]));
  }
}

}  // namespace spillway::text
