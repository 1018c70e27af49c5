#include "model/gguf/vocabulary.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/file.h"
#include "model/gguf/tokenizer.h"
#include "model/token_ids.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Document = nlohmann::json;

constexpr int64_t kMaxTokenizerBytes = int64_t{1} << 30;
constexpr std::string_view kSpace = "▁";

Document read_json(const fs::path& path) {
  auto json = parse_json<Document>(read_file(path, kMaxTokenizerBytes), path.string());
  if (!json.is_object()) throw input_error(path.string(), "expected a JSON object, got something else; write one");
  return json;
}
Document read_json_or_none(const fs::path& path) { return fs::exists(path) ? read_json(path) : Document::object(); }

// The member, or null.
const Document& member(const Document& json, std::string_view key) {
  static const Document kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(key);
  return found == json.end() ? kNone : *found;
}
std::string text_of(const Document& json) { return json.is_string() ? json.get<std::string>() : std::string(); }

struct TokenList {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;
};

class Converter {
 public:
  Converter(const fs::path& folder, const fs::path& model, int64_t vocab_size)
      : folder_(folder),
        path_((folder / "tokenizer.json").string()),
        json_(read_json(folder / "tokenizer.json")),
        config_(read_json_or_none(folder / "tokenizer_config.json")),
        model_config_(read_json_or_none(model / "config.json")),
        tokenizer_(text::Tokenizer::load(folder)) {
    const Document& model_json = member(json_, "model");
    if (text_of(member(model_json, "type")) != "BPE")
      refuse("model.type", "BPE", quote(text_of(member(model_json, "type"))));
    is_byte_level_ = member(model_json, "byte_fallback") != Document(true);
    read_vocabulary(vocab_size);
    read_merges(member(model_json, "merges"));
  }

  GgufMetadata convert() {
    is_byte_level_ ? add_byte_level() : add_sentencepiece();
    add_special_ids();
    add_further_ends();
    add_marks();
    add_chat_templates();
    return std::move(metadata_);
  }

 private:
  [[noreturn]] void refuse(std::string_view place, std::string_view expected, std::string_view got) const {
    throw input_error(fmt::format("{}: {}", path_, place),
                      "expected {}, which llama.cpp can run, got {}; use the folder itself", expected, got);
  }
  void set(std::string_view key, GgufEntry value) {
    metadata_.emplace_back(fmt::format("tokenizer.{}", key), std::move(value));
  }

  void read_vocabulary(int64_t vocab_size);
  void read_merges(const Document& merges);
  int32_t kind_of_added(const Document& added, const std::string& token) const;
  std::string pre_tokenizer_name() const;
  bool has_space_prefix() const;
  std::vector<float> scores() const;
  void add_byte_level();
  void add_sentencepiece();
  void add_special_ids();
  void add_further_ends();
  void add_marks();
  void add_chat_templates();

  fs::path folder_;
  std::string path_;
  Document json_, config_, model_config_;
  text::Tokenizer tokenizer_;
  bool is_byte_level_ = true;
  TokenList vocabulary_;
  std::vector<std::string> merges_;
  std::map<std::string, int64_t, std::less<>> added_;
  GgufMetadata metadata_;
};

// Returns true for a text that the converter makes a control token, whatever the file says about it.
bool looks_special(std::string_view token) {
  const auto is_between = [&](std::string_view before, std::string_view behind) {
    return token.starts_with(before) && token.ends_with(behind);
  };
  return token == "<pad>" || token == "<mask>" || token == "<2mass>" || token == "[@BOS@]" || is_between("<|", "|>") ||
         is_between("<｜", "｜>") || is_between("<unused", ">");
}

bool is_byte(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
         token.substr(3, 2).find_first_not_of("0123456789ABCDEFabcdef") == std::string_view::npos;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

int32_t Converter::kind_of_added(const Document& added, const std::string& token) const {
  if (!is_byte_level_ && token == text_of(member(member(json_, "model"), "unk_token"))) return kGgufUnknown;
  return member(added, "special") == Document(true) || looks_special(token) ? kGgufControl : kGgufUserDefined;
}

void Converter::read_vocabulary(int64_t vocab_size) {
  const auto rows = static_cast<size_t>(vocab_size);
  std::vector<std::optional<std::string>> tokens(rows);
  vocabulary_.kinds.assign(rows, kGgufUnused);
  const auto place = [&](const Document& id, const std::string& token, int32_t kind) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab_size)
      refuse("model.vocab", fmt::format("ids below {}, the rows of the embedding", vocab_size), quote(token));
    const auto at = id.get<size_t>();
    tokens[at] = token;
    vocabulary_.kinds[at] = kind;
  };
  const Document& vocabulary = member(member(json_, "model"), "vocab");
  if (!vocabulary.is_object()) refuse("model.vocab", "an object", "something else");
  for (const auto& [token, id] : vocabulary.items())
    place(id, token, !is_byte_level_ && is_byte(token) ? kGgufByte : kGgufNormal);
  for (const Document& added : member(json_, "added_tokens")) {
    const std::string token = text_of(member(added, "content"));
    const int32_t kind = kind_of_added(added, token);
    // llama.cpp looks for these in the raw text.
    place(member(added, "id"), kind == kGgufUserDefined ? replaced(token, kSpace, " ") : token, kind);
    added_.emplace(token, member(added, "id").get<int64_t>());
  }
  for (size_t id = 0; id < rows; ++id) vocabulary_.tokens.push_back(tokens[id].value_or(fmt::format("[PAD{}]", id)));
}

// "left right", from the older and the newer spelling.
void Converter::read_merges(const Document& merges) {
  if (!merges.is_array()) refuse("model.merges", "a list", "something else");
  merges_.reserve(merges.size());
  for (const Document& merge : merges) {
    if (merge.is_string()) {
      merges_.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges_.push_back(replaced(merge[0].get<std::string>(), " ", "Ġ") + " " +
                        replaced(merge[1].get<std::string>(), " ", "Ġ"));
    } else {
      refuse("model.merges", "pairs of tokens", "something else");
    }
  }
}

// Returns the properties of a step of the pre-tokenizer that decide where it splits.
Document essence_of(const Document& step) {
  if (!step.is_object()) return step;
  const std::string type = text_of(member(step, "type"));
  if (type == "Sequence") {
    Document steps = Document::array();
    for (const Document& one : member(step, "pretokenizers")) steps.push_back(essence_of(one));
    return steps.size() == 1 ? steps[0] : steps;
  }
  Document result = step;
  result.erase("trim_offsets");
  return result;
}

std::string Converter::pre_tokenizer_name() const {
  const Document& normalizer = member(json_, "normalizer");
  if (!normalizer.is_null() && text_of(member(normalizer, "type")) != "NFC")
    refuse("normalizer", "none or NFC", quote(text_of(member(normalizer, "type"))));
  const bool ignores_merges = member(member(json_, "model"), "ignore_merges") == Document(true);
  const Document wanted = essence_of(member(json_, "pre_tokenizer"));
  std::string near;
  for (const std::string& name : gguf_pre_tokenizer_families()) {
    const GgufPreTokenizer pre = *gguf_pre_tokenizer(name);
    if (pre.ignore_merges != ignores_merges || essence_of(Document(pre.pre_tokenizer)) != wanted) continue;
    if (pre.normalizer.is_null() == normalizer.is_null()) return name;
    if (near.empty()) near = name;  // llama.cpp normalises nothing, whatever the name
  }
  if (near.empty()) {
    refuse("pre_tokenizer", fmt::format("that of one of {}", fmt::join(gguf_pre_tokenizer_families(), ", ")),
           "another");
  }
  return near;
}

void Converter::add_byte_level() {
  set("ggml.model", "gpt2");
  set("ggml.pre", pre_tokenizer_name());
  set("ggml.tokens", vocabulary_.tokens);
  set("ggml.token_type", vocabulary_.kinds);
  set("ggml.merges", merges_);
}

// llama.cpp joins the neighbours that make the piece of the best score; so a piece's score is the place of its first
// merge. That is the same order as the merges' where each piece can be made of any two others, as SentencePiece does.
std::vector<float> Converter::scores() const {
  std::map<std::string, size_t, std::less<>> places;
  std::string last;
  for (const std::string& merge : merges_) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos) refuse("model.merges", "pairs of tokens", quote(merge));
    std::string piece = merge.substr(0, space) + merge.substr(space + 1);
    if (piece == last || added_.contains(piece)) continue;  // llama.cpp looks for added tokens in the raw text
    if (!places.emplace(piece, places.size()).second)
      refuse("model.merges", "all merges into a token behind one another", quote(merge));
    last = std::move(piece);
  }
  const size_t count = places.size();
  std::vector<float> result;
  for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    if (vocabulary_.kinds[id] != kGgufNormal) {
      result.push_back(vocabulary_.kinds[id] == kGgufByte || vocabulary_.kinds[id] == kGgufUnknown ? 0.0f : -1000.0f);
      continue;
    }
    const auto found = places.find(vocabulary_.tokens[id]);
    result.push_back(-static_cast<float>(found == places.end() ? count + id : found->second));
  }
  std::vector<bool> usable;
  for (const int32_t kind : vocabulary_.kinds) usable.push_back(kind == kGgufNormal);
  const std::vector<std::string> derived =
      merges_from_scores(vocabulary_.tokens, {result.begin(), result.end()}, usable);
  const std::set<std::string_view> ours(merges_.begin(), merges_.end()), theirs(derived.begin(), derived.end());
  for (const std::string& merge : derived) {
    if (!ours.contains(merge)) refuse("model.merges", fmt::format("every way to make a token, also {}", merge), "some");
  }
  return result;
}

// Returns true if texts get a space in front.
bool Converter::has_space_prefix() const {
  const Document &normalizer = member(json_, "normalizer"), &pre = member(json_, "pre_tokenizer");
  if (text_of(member(pre, "type")) == "Metaspace") {
    const std::string scheme = text_of(member(pre, "prepend_scheme"));
    return scheme.empty() ? member(pre, "add_prefix_space") != Document(false) : scheme != "never";
  }
  // The normalizer has left no spaces to split at.
  const bool splits_at_spaces =
      text_of(member(pre, "type")) == "Split" && text_of(member(member(pre, "pattern"), "String")) == " ";
  if (!pre.is_null() && !splits_at_spaces)
    refuse("pre_tokenizer", "none, Metaspace or a Split at spaces", quote(text_of(member(pre, "type"))));
  const Document steps = text_of(member(normalizer, "type")) == "Sequence" ? member(normalizer, "normalizers")
                                                                           : Document::array({normalizer});
  bool prepends = false;
  for (const Document& step : steps) {
    const std::string type = text_of(member(step, "type"));
    if (type == "Prepend" && text_of(member(step, "prepend")) == kSpace) {
      prepends = true;
    } else if (type != "Replace" || text_of(member(step, "content")) != kSpace) {
      refuse("normalizer", "spaces that become ▁, no more", quote(type));
    }
  }
  return prepends;
}

void Converter::add_sentencepiece() {
  set("ggml.model", "llama");
  set("ggml.pre", "default");
  set("ggml.tokens", vocabulary_.tokens);
  set("ggml.scores", scores());
  set("ggml.token_type", vocabulary_.kinds);
  set("ggml.add_space_prefix", has_space_prefix());
}

void Converter::add_special_ids() {
  constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
      {"bos", "bos_token_id"},     {"eos", "eos_token_id"}, {"unk", "unknown_token_id"}, {"sep", "seperator_token_id"},
      {"pad", "padding_token_id"}, {"cls", "cls_token_id"}, {"mask", "mask_token_id"}};  // the format's own spelling
  for (const auto& [role, key] : kRoles) {
    const Document& named = member(config_, fmt::format("{}_token", role));
    const std::string token = named.is_object() ? text_of(member(named, "content")) : text_of(named);
    std::optional<int64_t> id;
    if (const auto found = added_.find(token); found != added_.end()) id = found->second;
    const Document& stated = member(model_config_, fmt::format("{}_token_id", role));
    if (!id && stated.is_number_integer() && stated.get<int64_t>() >= 0) id = stated.get<int64_t>();
    if (id && *id < static_cast<int64_t>(vocabulary_.tokens.size()))
      set(fmt::format("ggml.{}", key), static_cast<uint32_t>(*id));
  }
}

// llama.cpp ends generation at three tokens that the file names, EOS among them, and at those whose text it knows. The
// converter leaves the other two to their texts. What a run has taught stands last in generation_config.json.
void Converter::add_further_ends() {
  std::vector<int32_t> ends = listed_ends(folder_);
  std::erase_if(ends, [&](int32_t id) {
    return id == tokenizer_.eos_id() || id >= static_cast<int64_t>(vocabulary_.tokens.size());
  });
  constexpr std::string_view kKeys[] = {"ggml.eot_token_id", "ggml.eom_token_id"};
  for (const std::string_view key : kKeys) {
    if (ends.empty()) return;
    set(key, static_cast<uint32_t>(ends.back()));
    ends.pop_back();
  }
}

// Adds the tokens before and after every text.
void Converter::add_marks() {
  const text::Tokenizer::Marks marks = tokenizer_.marks();
  const auto is_mark = [&](const std::vector<int32_t>& ids, std::optional<int32_t> token, std::string_view what) {
    if (ids.empty()) return false;
    if (ids.size() != 1 || ids[0] != token)
      refuse("post_processor", fmt::format("at most {} there", what), fmt::format("{}", fmt::join(ids, ", ")));
    return true;
  };
  set("ggml.add_bos_token", is_mark(marks.before, tokenizer_.bos_id(), "the BOS token"));
  set("ggml.add_eos_token", is_mark(marks.behind, tokenizer_.eos_id(), "the EOS token"));
}

void Converter::add_chat_templates() {
  if (const auto chat = tokenizer_.chat_template()) set("chat_template", *chat);
  std::vector<std::string> names;
  for (const auto& [name, source] : tokenizer_.chat_templates()) {
    if (name == "default") continue;
    names.push_back(name);
    set(fmt::format("chat_template.{}", name), source);
  }
  if (!names.empty()) set("chat_templates", names);
}

}  // namespace

GgufMetadata gguf_vocabulary(const fs::path& folder, const fs::path& model, int64_t vocab_size) {
  return Converter(folder, model, vocab_size).convert();
}

}  // namespace spillway
