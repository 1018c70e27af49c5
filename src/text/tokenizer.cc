#include "text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/json_field.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/file.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/file_tokens.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/special_tokens.h"
#include "text/tokenizer/tokenizer_edits.h"
#include "text/tokenizer/tokenizer_file.h"

namespace spillway::text {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;

// The working memory of one encode(); kept between calls.
struct Scratch {
  RegexScratch regex;
  PreTokenizerScratch words;
  ModelScratch model;
  std::string normalized;
};

// The largest buffer that is kept for the next text.
constexpr size_t kMaxKeptTextBytes = size_t{1} << 20;

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerFile& file, const JsonField& root)
      : model(root["model"], file),
        normalizer(root["normalizer"]),
        pre_tokenizer(root["pre_tokenizer"]),
        added(root["added_tokens"], model.vocabulary(), normalizer),
        post_processor(root["post_processor"], vocabulary_size()),
        decoder(root["decoder"]) {}

  [[nodiscard]] int64_t vocabulary_size() const { return std::max(model.vocabulary().id_limit(), added.id_limit()); }
  [[nodiscard]] std::optional<std::string_view> token(int64_t id) const {
    if (const AddedToken* token = added.token(id)) return token->text;
    return model.vocabulary().token(id);
  }
  [[nodiscard]] std::optional<int32_t> find(std::string_view token) const {
    if (const std::optional<int32_t> id = added.find(token)) return id;
    return model.vocabulary().find(token);
  }
  [[nodiscard]] std::optional<int32_t> find(const std::optional<std::string>& token) const {
    return token ? find(std::string_view(*token)) : std::nullopt;
  }

  [[nodiscard]] std::unique_ptr<Scratch> take_scratch() const {
    const std::lock_guard lock(mutex);
    if (unused.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(unused.back());
    unused.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) const {
    const std::lock_guard lock(mutex);
    unused.push_back(std::move(scratch));
  }

  // Reads the roles of these files, and adds their tokens.
  void add_files(const TokenFiles& files, const std::map<int64_t, std::string>& overrides);

  void encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;

  Model model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;
  SpecialTokens roles;
  std::vector<int32_t> stop_ids;

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch>> unused;  // at most as many as threads encode at once
};

void Tokenizer::Impl::add_files(const TokenFiles& files, const std::map<int64_t, std::string>& overrides) {
  bool lists_added_tokens = false;
  if (!files.config.empty()) {
    const nlohmann::json json = parse_config(files.config, files.config_name);
    const JsonField config(json, files.config_name);
    roles.add(config);
    lists_added_tokens = config.has("added_tokens_decoder");
    if (config["split_special_tokens"].boolean_or(false)) added.split_special();
  }
  // As in transformers, which writes all roles into a config that lists the added tokens.
  if (!files.map.empty() && !lists_added_tokens) {
    const nlohmann::json json = parse_config(files.map, files.map_name);
    roles.add(JsonField(json, files.map_name));
  }
  const std::string& where = lists_added_tokens || files.added.empty() ? files.config_name : files.added_name;
  added.update(read_file_tokens(files, added, overrides), where, model.vocabulary(), normalizer);
}

// Cuts out raw added tokens first, then normalizes each rest, cuts out the normalized ones, and passes what remains
// through the pre-tokenizer to the model.
void Tokenizer::Impl::encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const {
  TextBudget budget(text.size());
  const auto push = [&](int32_t id) { ids.push_back(id); };
  const PreTokenizer::Use encode_words = [&](const Words& words) {
    for (const Words::Span& span : words.spans) model.encode(words.word(span), scratch.model, ids);
  };
  const auto encode_rest = [&](std::string_view rest, bool starts_text) {
    pre_tokenizer.apply(rest, starts_text, scratch.words, budget, encode_words);
  };
  const auto encode_raw = [&](size_t raw_begin, size_t raw_end) {
    const std::string_view raw = text.substr(raw_begin, raw_end - raw_begin);
    const std::string_view normalized = normalizer.apply(raw, scratch.normalized, scratch.regex, budget);
    added.split(
        true, normalized,
        [&](size_t begin, size_t end) {
          encode_rest(normalized.substr(begin, end - begin), raw_begin == 0 && begin == 0);
        },
        push);
  };
  added.split(false, text, encode_raw, push);
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json, std::string_view where) {
  const auto name = [&](std::string_view file) {
    return where.empty() ? std::string(file) : fmt::format("{}/{}", where, file);
  };
  TokenizerFile file = read_tokenizer_file(tokenizer_json, name("tokenizer.json"));
  auto impl = std::make_unique<Impl>(file, JsonField(file.rest, name("tokenizer.json")));
  if (!config_json.empty())
    impl->add_files({.config = std::string(config_json), .config_name = name("tokenizer_config.json")}, {});
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) { return load(folder, {}); }

Tokenizer Tokenizer::load(const std::filesystem::path& folder, const SpecialTokenNames& names) {
  // A broken link counts as there: reading it fails, and says what is wrong.
  const auto has = [&](std::string_view name) {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::symlink_status(folder / name, error));
  };
  if (!has("tokenizer.json")) {
    throw input_error(folder.string(),
                      "expected a model folder with tokenizer.json, got none; save the tokenizer with "
                      "transformers' save_pretrained, which writes it");
  }
  const std::filesystem::path path = folder / "tokenizer.json";
  std::string text = read_file(path, kMaxFileBytes);
  if (!names.overrides.empty()) text = with_token_texts(text, names.overrides, path.string());
  Tokenizer tokenizer = from_json(text, "", folder.string());
  Impl& impl = *tokenizer.impl_;
  const auto read_text = [&](std::string_view name, std::string& file_text, std::string& file_name) {
    file_name = (folder / name).string();
    if (!has(name)) return;
    file_text = read_file(file_name, kMaxConfigBytes);
    if (file_text.empty()) (void)parse_config(file_text, file_name);  // which throws
  };
  TokenFiles files;
  read_text("tokenizer_config.json", files.config, files.config_name);
  read_text("special_tokens_map.json", files.map, files.map_name);
  read_text("added_tokens.json", files.added, files.added_name);
  impl.add_files(files, names.overrides);
  if (ChatTemplateSources templates = read_chat_template_files(folder); !templates.empty())
    impl.roles.chat_templates = std::move(templates);
  std::string generation, config, name;
  read_text("generation_config.json", generation, name);
  if (generation.empty()) read_text("config.json", config, name);
  impl.stop_ids = read_stop_ids(generation, config, folder);
  tokenizer.add_tokens(names);
  return tokenizer;
}

void Tokenizer::add_tokens(const SpecialTokenNames& names) {
  SpecialTokens& roles = impl_->roles;
  std::vector<std::string> with_role;
  for (const auto& [name, role] : {std::pair(&names.bos_token, &roles.bos),
                                   {&names.eos_token, &roles.eos},
                                   {&names.unk_token, &roles.unk},
                                   {&names.pad_token, &roles.pad}}) {
    if (name->empty()) continue;
    *role = *name;
    with_role.push_back(*name);
  }
  const Vocabulary& vocabulary = impl_->model.vocabulary();
  impl_->added.add(with_role, true, vocabulary);
  impl_->added.add(names.tokens, false, vocabulary);
  impl_->added.add(names.additional_special_tokens, true, vocabulary);
}

nlohmann::ordered_json Tokenizer::added_tokens() const {
  auto result = nlohmann::ordered_json::array();
  for (const auto& [id, token] : impl_->added.by_id()) {
    result.push_back({{"id", id},
                      {"content", token.content},
                      {"single_word", token.single_word},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"normalized", token.normalized},
                      {"special", token.special}});
  }
  return result;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  check_text_size(text.size());
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text);
    text = repaired;
  }
  std::unique_ptr<Scratch> scratch = impl_->take_scratch();
  std::vector<int32_t> ids;
  impl_->encode(text, *scratch, ids);
  if (text.size() <= kMaxKeptTextBytes) impl_->give_back(std::move(scratch));
  return impl_->post_processor.apply(std::move(ids), add_special_tokens);
}

Tokenizer::Marks Tokenizer::marks() const {
  constexpr int32_t kText = -1;  // stands for the ids of a text: no token has it
  const std::vector<int32_t> ids = impl_->post_processor.apply({kText}, true);
  const auto text = std::find(ids.begin(), ids.end(), kText);
  return {{ids.begin(), text}, {text == ids.end() ? text : text + 1, ids.end()}};
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::optional<std::string_view> token = impl_->token(id);
    if (!token || (skip_special_tokens && impl_->added.is_skipped(*token))) continue;
    tokens.emplace_back(*token);
  }
  return impl_->decoder.decode(std::move(tokens));
}

std::vector<std::pair<int64_t, int64_t>> Tokenizer::locate(std::string_view text, std::span<const int32_t> ids) const {
  constexpr size_t kFarthest = 64;  // bytes that one token may have been changed by
  std::vector<std::pair<int64_t, int64_t>> result;
  size_t at = 0;
  for (const int32_t id : ids) {
    const std::string spelt = token_bytes(id);
    std::string_view token = spelt;
    if (token.starts_with(' ') && !text.substr(at).starts_with(token)) token.remove_prefix(1);  // a space put before
    const std::string_view ahead = text.substr(at, token.size() + kFarthest);
    const size_t found = token.empty() ? 0 : ahead.find(token);
    if (found == std::string_view::npos) {
      result.emplace_back(at, at);
      continue;
    }
    // Text that was passed over belongs to the tokens that could not be found, or to this one.
    for (size_t i = result.size(); found > 0 && i > 0 && result[i - 1] == std::pair(int64_t(at), int64_t(at)); --i) {
      result[i - 1].second = static_cast<int64_t>(at + found);
    }
    at += found;
    result.emplace_back(at, at + token.size());
    at += token.size();
  }
  return result;
}

std::string Tokenizer::StreamDecoder::push(int32_t id) {
  const std::string token = tokenizer_->id_to_token(id);
  if (token.empty() || (skip_special_tokens_ && tokenizer_->impl_->added.is_skipped(token))) return "";
  window_.push_back(id);
  if (tokenizer_->impl_->decoder.is_open(token)) return "";
  std::string text = tokenizer_->decode(window_, false);
  // A character that is cut off reads as one U+FFFD at the end, and may yet be completed.
  const bool complete = !text.ends_with(kReplacementCharacter);
  const size_t certain = complete ? text.size() : text.size() - kReplacementCharacter.size();
  std::string result = certain > emitted_bytes_ ? text.substr(emitted_bytes_, certain - emitted_bytes_) : "";
  emitted_bytes_ = std::max(emitted_bytes_, certain);
  if (complete) {
    window_ = {id};
    emitted_bytes_ = tokenizer_->decode(window_, false).size();
  }
  return result;
}

std::string Tokenizer::StreamDecoder::finish() {
  const std::string text = tokenizer_->decode(window_, false);
  std::string result = text.size() > emitted_bytes_ ? text.substr(emitted_bytes_) : "";
  window_.clear();
  emitted_bytes_ = 0;
  return result;
}

std::string Tokenizer::token_bytes(int32_t id) const {
  const AddedToken* added = impl_->added.token(id);
  return added != nullptr ? added->content : impl_->decoder.bytes(id_to_token(id));
}
std::string Tokenizer::id_to_token(int32_t id) const { return std::string(impl_->token(id).value_or("")); }
std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const { return impl_->find(token); }
int64_t Tokenizer::vocabulary_size() const { return impl_->vocabulary_size(); }

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = impl_->added.token(id);
  return token != nullptr && token->special;
}

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->find(impl_->roles.bos); }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->find(impl_->roles.eos); }
std::optional<int32_t> Tokenizer::pad_id() const { return impl_->find(impl_->roles.pad); }
std::optional<int32_t> Tokenizer::unk_id() const { return impl_->find(impl_->roles.unk); }
std::string Tokenizer::bos_token() const { return impl_->roles.bos.value_or(""); }
std::string Tokenizer::eos_token() const { return impl_->roles.eos.value_or(""); }
std::string Tokenizer::pad_token() const { return impl_->roles.pad.value_or(""); }
std::string Tokenizer::unk_token() const { return impl_->roles.unk.value_or(""); }

std::vector<int32_t> Tokenizer::stop_ids() const {
  std::vector<int32_t> result = impl_->stop_ids;
  if (const std::optional<int32_t> eos = eos_id()) result.push_back(*eos);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::optional<std::string> Tokenizer::chat_template(std::string_view name) const {
  for (const auto& [known, source] : impl_->roles.chat_templates) {
    if (known == name) return source;
  }
  return std::nullopt;
}

const ChatTemplateSources& Tokenizer::chat_templates() const { return impl_->roles.chat_templates; }

}  // namespace spillway::text
