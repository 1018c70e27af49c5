#include "text/tokenizer/tokenizer_edits.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer/tokenizer_file.h"

namespace spillway::text {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// Returns the place of the quote that ends the text whose first quote is at `begin`.
size_t end_of_text(std::string_view json, size_t begin) {
  size_t at = begin + 1;
  while (json[at] != '"') at += json[at] == '\\' ? 2 : 1;
  return at;
}

// Returns where the value begins if the text that ends at `end` is a key.
std::optional<size_t> value_of_key(std::string_view json, size_t end) {
  const size_t colon = json.find_first_not_of(kSpaces, end + 1);
  if (colon == std::string_view::npos || json[colon] != ':') return std::nullopt;
  return json.find_first_not_of(kSpaces, colon + 1);
}

// Returns the vocabulary of the model with other keys for some ids.
std::string with_vocabulary_texts(std::string_view json, const std::map<int64_t, std::string>& texts) {
  std::string result;
  size_t copied = 0;
  int depth = 0;
  std::string_view keys[2];  // on the way to a member of model.vocab
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '{' || json[i] == '[') ++depth;
    if (json[i] == '}' || json[i] == ']') --depth;
    if (json[i] != '"') continue;
    const size_t begin = i;
    i = end_of_text(json, begin);
    const std::optional<size_t> value = value_of_key(json, i);
    if (!value) continue;
    if (depth == 1 || depth == 2) keys[depth - 1] = json.substr(begin, i + 1 - begin);
    if (depth != 3 || keys[0] != "\"model\"" || keys[1] != "\"vocab\"") continue;
    int64_t id = -1;
    std::from_chars(json.data() + *value, json.data() + json.size(), id);
    const auto found = texts.find(id);
    if (found == texts.end()) continue;
    result.append(json.substr(copied, begin - copied)).append(json_text(nlohmann::json(found->second)));
    copied = i + 1;
  }
  return result.append(json.substr(copied));
}

}  // namespace

std::string with_added_tokens(std::string_view json, std::string_view list) {
  constexpr std::string_view kKey = "\"added_tokens\"";
  const auto join = [&](size_t begin, size_t end, std::string_view text) {
    return std::string(json.substr(0, begin)).append(text).append(json.substr(end));
  };
  std::optional<size_t> value;  // where the list begins, once its key was read
  int depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      const size_t begin = i;
      i = end_of_text(json, begin);
      if (depth == 1 && json.substr(begin, i + 1 - begin) == kKey) value = value_of_key(json, i);
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
      if (value && depth == 1) return join(*value, i + 1, list);
      if (value && depth == 0) return join(*value, i, list);  // null, and the last member
    } else if (c == ',' && depth == 1 && value) {
      return join(*value, i, list);  // null
    }
  }
  const size_t open = json.find('{') + 1;
  return join(open, open, fmt::format("{}: {},", kKey, list));
}

std::string with_token_texts(std::string_view json, const std::map<int64_t, std::string>& texts,
                             std::string_view where) {
  nlohmann::json list = read_tokenizer_file(json, where).rest.value("added_tokens", nlohmann::json::array());
  for (const auto& [id, text] : texts) {
    const auto token = std::find_if(list.begin(), list.end(), [id = id](const nlohmann::json& one) {
      return one.is_object() && one.contains("id") && one["id"] == id;
    });
    if (token == list.end()) {
      throw input_error(where,
                        "expected an added token with id {}, which added_tokens_overrides names, got none; name {}", id,
                        "one of its added_tokens");
    }
    (*token)["content"] = text;
  }
  return with_vocabulary_texts(with_added_tokens(json, json_text(list)), texts);
}

}  // namespace spillway::text
