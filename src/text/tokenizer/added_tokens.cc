#include "text/tokenizer/added_tokens.h"

#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/tokenizer/code_points.h"

namespace spillway::text {
namespace {

constexpr int64_t kMaxId = INT32_MAX - 1;
// The bytes that normalizing may add to the texts: tries of them take many bytes for each.
constexpr size_t kFreeBytes = size_t{64} << 10;

std::string renumbering(std::string_view content, int64_t id, int64_t id_in_file) {
  return fmt::format("{} has id {}, not {}", quote(content), id, id_in_file);
}

void warn_of_id(std::string_view where, std::string_view renumbered) {
  log_warning("[{}] {}: the ids of added tokens follow the vocabulary without a gap", where, renumbered);
}

}  // namespace

AddedToken read_added_token(const JsonField& field, bool is_special) {
  AddedToken token;
  token.content = field["content"].string();
  token.id = -1;
  token.single_word = field["single_word"].boolean_or(false);
  token.lstrip = field["lstrip"].boolean_or(false);
  token.rstrip = field["rstrip"].boolean_or(false);
  token.special = is_special || field["special"].boolean_or(false);
  token.normalized = field["normalized"].boolean_or(!token.special);
  return token;
}

AddedTokens::AddedTokens(const JsonField& field, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  if (field.is_null()) return;
  std::map<int32_t, std::string> ids_in_file;
  std::vector<AddedToken> tokens;
  std::string renumbered;
  for (const JsonField& element : field.elements()) {
    AddedToken token = read_added_token(element, false);
    token.id = static_cast<int32_t>(element["id"].integer(0, kMaxId));
    if (token.content.empty()) continue;
    const auto [first, is_new] = ids_in_file.emplace(token.id, token.content);
    if (!is_new)
      throw element["id"].bad(fmt::format("an id that {} does not have", quote(first->second)), "give it another");
    const int32_t id_in_file = token.id;
    add_from_file(std::move(token), vocabulary, element);
    const std::string& content = first->second;
    const int32_t id = by_content_.at(content);
    if (id != id_in_file && renumbered.empty()) renumbered = renumbering(content, id, id_in_file);
  }
  if (!renumbered.empty()) warn_of_id(field.where(), renumbered);
  normalize(normalizer);
}

void AddedTokens::normalize(const Normalizer& normalizer) {
  std::string buffer;
  RegexScratch scratch;
  size_t bytes = 0;
  for (const auto& [id, token] : by_id_) bytes += token.content.size();
  TextBudget budget(bytes, kFreeBytes);
  for (auto& [id, token] : by_id_) {
    token.text = token.normalized ? normalizer.apply(token.content, buffer, scratch, budget) : token.content;
  }
  index();
}

// Special tokens go first if the normalized texts of two are equal.
void AddedTokens::index() {
  std::vector<std::pair<std::string_view, int32_t>> raw, normalized;
  for (const bool special : {true, false}) {
    for (const auto& [id, token] : by_id_) {
      if (token.special == special) (token.normalized ? normalized : raw).emplace_back(token.text, id);
    }
  }
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

int64_t AddedTokens::id_for(std::string_view content, const Vocabulary& vocabulary) const {
  if (const std::optional<int32_t> id = vocabulary.find(content)) return *id;
  return std::max(vocabulary.size(), id_limit());
}

void AddedTokens::add_from_file(AddedToken token, const Vocabulary& vocabulary, const JsonField& field) {
  const int64_t id = id_for(token.content, vocabulary);
  if (vocabulary.token(id).value_or(token.content) != token.content) {
    throw field["id"].bad(fmt::format("a vocabulary without gaps below {}", vocabulary.id_limit()),
                          fmt::format("{} would get id {}, which is taken", quote(token.content), id));
  }
  token.id = static_cast<int32_t>(id);
  if (!by_content_.emplace(token.content, token.id).second) {
    throw field["content"].bad("a content that no other added token has", "remove one of the two");
  }
  if (token.special) special_.insert(token.content);
  by_id_.emplace(token.id, std::move(token));
}

int64_t AddedTokens::new_id(std::string_view content, const Vocabulary& vocabulary) const {
  const int64_t id = id_for(content, vocabulary);
  if (content.empty() || id > kMaxId || vocabulary.token(id).value_or(content) != content) {
    throw input_error("tokens", "expected a text and a free id for a new token, got {} and {}; leave it out",
                      quote(content), id);
  }
  return id;
}

void AddedTokens::add(std::span<const std::string> contents, bool special, const Vocabulary& vocabulary) {
  for (const std::string& content : contents) {
    if (special) special_.insert(content);
    if (by_content_.contains(content)) continue;
    const int64_t id = new_id(content, vocabulary);
    by_content_.emplace(content, static_cast<int32_t>(id));
    by_id_.emplace(id, AddedToken{content, content, static_cast<int32_t>(id), false, false, false, false, special});
  }
  index();
}

void AddedTokens::update(std::span<const AddedToken> tokens, std::string_view where, const Vocabulary& vocabulary,
                         const Normalizer& normalizer) {
  std::string renumbered;
  bool has_changed = false;
  for (AddedToken token : tokens) {
    if (token.content.empty()) continue;
    const std::optional<int32_t> known = find(token.content);
    const int64_t id = known ? *known : new_id(token.content, vocabulary);
    if (token.id >= 0 && token.id != id && renumbered.empty()) renumbered = renumbering(token.content, id, token.id);
    token.id = static_cast<int32_t>(id);
    if (token.special) special_.insert(token.content);
    by_content_.emplace(token.content, token.id);
    AddedToken& place = by_id_[token.id];
    token.text = place.text;
    if (known && token == place) continue;
    place = std::move(token);
    has_changed = true;
  }
  if (!renumbered.empty()) warn_of_id(where, renumbered);
  if (has_changed) normalize(normalizer);
}

std::optional<int32_t> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

const AddedToken* AddedTokens::token(int64_t id) const {
  if (id < 0 || id >= id_limit()) return nullptr;
  const auto found = by_id_.find(static_cast<int32_t>(id));
  return found == by_id_.end() ? nullptr : &found->second;
}

bool AddedTokens::touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t before = previous_character(text, begin);
    if (is_word(next_code_point(text, before))) return true;
  }
  return end < text.size() && is_word(next_code_point(text, end));
}

size_t AddedTokens::space_before(std::string_view text, size_t position) {
  while (position > 0) {
    const size_t before = previous_character(text, position);
    size_t i = before;
    if (!is_whitespace(next_code_point(text, i))) break;
    position = before;
  }
  return position;
}

size_t AddedTokens::space_behind(std::string_view text, size_t position) {
  while (position < text.size()) {
    size_t i = position;
    if (!is_whitespace(next_code_point(text, i))) break;
    position = i;
  }
  return position;
}

}  // namespace spillway::text
