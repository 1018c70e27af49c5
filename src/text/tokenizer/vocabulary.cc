#include "text/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "base/text.h"

namespace spillway::text {
namespace {

// The gaps that ids may have (reserved tokens that were never named): a table over ids must stay in proportion.
constexpr int64_t kFreeIds = 1 << 20;
constexpr size_t kMaxTokensBytes = std::numeric_limits<uint32_t>::max();

uint64_t token_hash(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::pair<std::string, int64_t>>& tokens, std::string_view where)
    : size_(static_cast<int64_t>(tokens.size())) {
  const int64_t most = size_ * 8 + kFreeIds;
  int64_t limit = 0;
  size_t bytes = 0;
  for (const auto& [token, id] : tokens) {
    if (id < 0 || id >= most) {
      throw input_error(where,
                        "expected ids from 0 to {} for {} tokens, got {} for {}; compare with the published file",
                        most - 1, size_, id, quote(token));
    }
    limit = std::max(limit, id + 1);
    bytes += token.size();
  }
  if (bytes > kMaxTokensBytes) throw input_error(where, "expected less than 4 GiB of tokens, got more; shorten them");
  texts_.reserve(bytes);
  resize(spans_, limit);
  slots_.resize(std::bit_ceil(tokens.size() * 2 + 2));
  for (const auto& [token, id] : tokens) {
    Span& span = nth(spans_, id);
    if (span.used) {
      throw input_error(where,
                        "expected one token for each id, got {} and {} for id {}; compare with the published file",
                        quote(text(static_cast<int32_t>(id))), quote(token), id);
    }
    Slot& slot = slots_[slot_of(token)];
    if (slot.id >= 0) {
      throw input_error(where, "expected one id for each token, got {} and {} for {}; compare with the published file",
                        slot.id, id, quote(token));
    }
    slot = {static_cast<uint32_t>(token_hash(token)), static_cast<int32_t>(id)};
    span = {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(token.size()), true};
    texts_ += token;
  }
}

size_t Vocabulary::slot_of(std::string_view token) const {
  const uint64_t hash = token_hash(token);
  const size_t mask = slots_.size() - 1;
  for (size_t i = (hash >> 32 ^ hash) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0 || (slot.hash == static_cast<uint32_t>(hash) && text(slot.id) == token)) return i;
  }
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(token)];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

int32_t Vocabulary::unknown_id(std::string_view unknown_token, std::string_view text, std::string_view where) const {
  const std::optional<int32_t> id = find(unknown_token);
  if (!id) {
    throw input_error(fmt::format("{}.unk_token", where),
                      "expected a token of the vocabulary, got {}, and the text has {}, which needs it; add it to "
                      "model.vocab",
                      quote(unknown_token), quote(text));
  }
  return *id;
}

std::optional<std::string_view> Vocabulary::token(int64_t id) const {
  if (id < 0 || id >= id_limit() || !nth(spans_, id).used) return std::nullopt;
  return text(static_cast<int32_t>(id));
}

}  // namespace spillway::text
