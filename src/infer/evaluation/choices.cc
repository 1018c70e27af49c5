#include "infer/evaluation/choices.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_field.h"
#include "base/utf8.h"
#include "infer/evaluation/share.h"
#include "io/json_lines.h"

namespace spillway::infer {
namespace {

using Json = nlohmann::ordered_json;

ChoiceItem read_item(const JsonField& line, const text::Tokenizer& tokenizer, const ChoiceEncoding& encoding) {
  const std::string& context = member(line, {"context", "query", "question"}).string();
  const std::string delimiter = line["delimiter"].string_or(" ");
  const JsonField choices = line["choices"];
  ChoiceItem item;
  for (const JsonField& choice : choices.elements()) {
    const std::string& text = choice.string();
    if (text.empty()) throw choice.bad("a text", "remove the choice, or write it");
    item.texts.push_back(encode_pair(tokenizer, context, delimiter + text, encoding));
    item.characters.push_back(static_cast<int64_t>(count_characters(text)));
    item.bytes.push_back(std::ssize(text));
  }
  if (item.texts.size() < 2) throw choices.bad("at least two choices", "add some");
  item.gold = static_cast<size_t>(member(line, {"gold", "answer", "label"}).integer(0, std::ssize(item.texts) - 1));
  return item;
}

// Returns the choice with the largest log-probability, divided by its length if lengths are given.
size_t answer_of(const ChoiceScores& scores, const std::vector<int64_t>* lengths = nullptr) {
  const auto value = [&](size_t i) {
    return lengths ? scores.log_probs[i] / static_cast<double>((*lengths)[i]) : scores.log_probs[i];
  };
  size_t best = 0;
  for (size_t i = 1; i < scores.log_probs.size(); ++i) {
    if (value(i) > value(best)) best = i;
  }
  return best;
}

}  // namespace

ScoredText encode_pair(const text::Tokenizer& tokenizer, std::string context, std::string continuation,
                       const ChoiceEncoding& encoding) {
  ScoredText result;
  if (context.empty()) {
    const std::optional<int32_t> first = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
    if (!first)
      throw input_error("tokenizer.json",
                        "expected a token that begins or ends texts, for an empty context, got none; write a context");
    const std::vector<int32_t> ids = tokenizer.encode(continuation, false);
    result.ids.push_back(*first);
    result.ids.insert(result.ids.end(), ids.begin() + (!ids.empty() && ids.front() == *first ? 1 : 0), ids.end());
    result.context = 1;
  } else {
    // As Python's rstrip() for texts that end in ASCII.
    const size_t end = context.find_last_not_of(" \t\n\r\f\v");
    const size_t kept = end == std::string::npos ? 0 : end + 1;
    continuation = context.substr(kept) + continuation;
    context.resize(kept);
    result.ids = tokenizer.encode(context + continuation, encoding.adds_special_tokens);
    result.context =
        std::min(std::ssize(tokenizer.encode(context, encoding.adds_special_tokens)), std::ssize(result.ids));
  }
  // The model reads all tokens but the last.
  const int64_t over = std::ssize(result.ids) - (encoding.most_tokens + 1);
  if (over > 0) {
    result.ids.erase(result.ids.begin(), result.ids.begin() + over);
    result.context = std::max<int64_t>(1, result.context - over);
  }
  return result;
}

std::vector<ChoiceItem> read_choices(const std::string& path, const text::Tokenizer& tokenizer,
                                     const ChoiceEncoding& encoding) {
  std::vector<ChoiceItem> items;
  each_line(path, [&](std::string_view text, const std::string& where) {
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const JsonDocument document(text, where);
    items.push_back(read_item(document.root(), tokenizer, encoding));
    for (const ScoredText& one : items.back().texts) {
      if (one.context == 0 || one.context >= std::ssize(one.ids))
        throw input_error(where,
                          "expected a context and choices of at least one token each, got fewer; write something");
    }
  });
  if (items.empty()) throw input_error(path, "expected an item a line, got none; write some");
  return items;
}

Json choices_json(std::span<const ChoiceItem> items, std::span<const ChoiceScores> scores) {
  Json each = Json::array();
  int64_t right = 0, right_by_characters = 0, right_by_bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const ChoiceItem& item = items[i];
    const size_t answer = answer_of(scores[i]);
    right += answer == item.gold;
    right_by_characters += answer_of(scores[i], &item.characters) == item.gold;
    right_by_bytes += answer_of(scores[i], &item.bytes) == item.gold;
    each.push_back({{"log_probs", scores[i].log_probs},
                    {"is_greedy", scores[i].are_greedy},
                    {"answer", answer},
                    {"gold", item.gold}});
  }
  Json json = {{"items", items.size()}};
  add_share(json, "acc", right, items.size());
  add_share(json, "acc_norm", right_by_characters, items.size());
  add_share(json, "acc_bytes", right_by_bytes, items.size());
  json["choices"] = std::move(each);
  return json;
}

}  // namespace spillway::infer
