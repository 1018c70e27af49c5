#include "text/tokenizer/file_tokens.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/json.h"
#include "text/tokenizer/special_tokens.h"

namespace spillway::text {
namespace {

constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kAdditional = "additional_special_tokens";  // its name before transformers 5

// One of the files; an empty object if it is absent.
struct File {
  File(std::string_view file_text, std::string_view name)
      : text(file_text), json(text.empty() ? nlohmann::json::object() : parse_config(text, name)), root(json, name) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Returns the names of an object's members in the order of the file.
  [[nodiscard]] std::vector<std::string> names(const char* member = nullptr) const {
    std::vector<std::string> result;
    if (text.empty()) return result;
    const auto ordered = parse_json<nlohmann::ordered_json>(text, "");
    for (const auto& [name, value] : (member != nullptr ? ordered[member] : ordered).items()) result.push_back(name);
    return result;
  }

  std::string_view text;
  nlohmann::json json;
  JsonField root;
};

class FileTokensReader {
 public:
  FileTokensReader(const TokenFiles& files, const AddedTokens& own, const std::map<int64_t, std::string>& overrides)
      : config_(files.config, files.config_name),
        map_(config_.root.has(kDecoder) ? "" : files.map, files.map_name),
        added_(config_.root.has(kDecoder) ? "" : files.added, files.added_name),
        own_(own),
        overrides_(overrides) {}

  std::vector<AddedToken> read() {
    read_roles();
    read_extra();
    config_.root.has(kDecoder) ? read_decoder() : read_added();
    std::vector<AddedToken> tokens;
    std::unordered_set<std::string> known;
    for (const auto& [id, token] : own_.by_id()) known.insert(token.content);
    for (const auto& [id, token] : listed_) {
      known.insert(token.content);
      tokens.push_back(token);
    }
    for (const auto& [key, token] : roles_) {
      if (known.insert(token.content).second) tokens.push_back(token);
    }
    for (const AddedToken& token : extra_) {
      if (known.insert(token.content).second) tokens.push_back(token);
    }
    return tokens;
  }

 private:
  static AddedToken special(std::string content, bool is_special = true) {
    AddedToken token;
    token.content = std::move(content);
    token.special = is_special;
    token.normalized = !is_special;
    token.id = -1;
    return token;
  }
  static bool is_token(const JsonField& field) {
    return field.is_string() || (field.is_object() && field["content"].is_string());
  }
  static AddedToken read_token(const JsonField& field, bool is_special) {
    return field.is_object() ? read_added_token(field, is_special) : special(field.string());
  }

  [[nodiscard]] bool is_role(const std::string& content) const {
    return std::any_of(roles_.begin(), roles_.end(), [&](const auto& role) { return role.second.content == content; });
  }

  void set_role(const std::string& key, const JsonField& field) {
    const auto place = std::find_if(roles_.begin(), roles_.end(), [&](const auto& role) { return role.first == key; });
    if (place != roles_.end()) {
      place->second = read_token(field, true);
    } else {
      roles_.emplace_back(key, read_token(field, true));
    }
  }

  // The usual roles, then those of the model's own: objects and the map's, the config's texts, and named extra tokens.
  void read_roles() {
    constexpr const char* kUsual[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
    for (const char* key : kUsual) {
      const JsonField field = (map_.root.has(key) ? map_ : config_).root[key];
      if (!field.is_null()) set_role(key, field);
    }
    const auto read_others = [&](const File& file, bool as_text) {
      const auto is_wanted = [&](const std::string& key) {
        const bool is_usual = std::find(std::begin(kUsual), std::end(kUsual), key) != std::end(kUsual);
        if (is_usual || !key.ends_with("_token")) return false;
        const JsonField field = file.root[key];
        return is_token(field) && field.is_string() == as_text;
      };
      std::vector<std::string> keys;
      for (const auto& [key, field] : file.root.members()) {
        if (is_wanted(key)) keys.push_back(key);
      }
      if (keys.size() > 1) {  // their order is that of the new ids
        keys = file.names();
        std::erase_if(keys, [&](const std::string& key) { return !is_wanted(key); });
      }
      for (const std::string& key : keys) set_role(key, file.root[key]);
    };
    read_others(config_, false);
    read_others(map_, false);
    read_others(map_, true);
    read_others(config_, true);
    for (const File* file : {&config_, &map_}) {
      if (!file->root[kExtra].is_object()) continue;
      for (const std::string& key : file->names(kExtra)) set_role(key, file->root[kExtra][key]);
    }
  }

  void read_extra() {
    const auto add = [&](const JsonField& list, bool is_special) {
      if (!list.is_array()) return;
      for (const JsonField& field : list.elements()) extra_.push_back(read_token(field, is_special));
    };
    add(config_.root[config_.root[kExtra].is_in_use() ? kExtra : kAdditional], false);
    add(map_.root[kExtra], true);
    // As in transformers, the map's old name counts only where nothing has the new one.
    if (!config_.root.has(kExtra) && !config_.root.has(kAdditional) && !map_.root.has(kExtra))
      add(map_.root[kAdditional], true);
  }

  void list(int64_t id, AddedToken token) {
    if (const auto found = overrides_.find(id); found != overrides_.end()) token.content = found->second;
    token.id = static_cast<int32_t>(id);
    listed_[token.id] = std::move(token);
  }

  void read_decoder() {
    for (const auto& [name, field] : config_.root[kDecoder].members()) {
      int32_t id = -1;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
      if (error != std::errc() || end != name.data() + name.size() || id < 0)
        throw field.bad("a token under its id", "name it by its id");
      list(id, read_added_token(field, is_role(field["content"].string())));
    }
  }

  void read_added() {
    const auto is_extra = [&](const std::string& content) {
      return std::any_of(extra_.begin(), extra_.end(), [&](const AddedToken& one) { return one.content == content; });
    };
    for (const auto& [content, id] : added_.root.members())
      list(id.integer(0, INT32_MAX - 1), special(content, is_role(content) || is_extra(content)));
    for (const auto& [id, token] : own_.by_id()) {
      listed_[id] = token;
      listed_[id].special = token.special || is_role(token.content);
    }
  }

  File config_, map_, added_;
  const AddedTokens& own_;
  const std::map<int64_t, std::string>& overrides_;
  std::vector<std::pair<std::string, AddedToken>> roles_;  // by key
  std::vector<AddedToken> extra_;
  std::map<int32_t, AddedToken> listed_;
};

}  // namespace

std::vector<AddedToken> read_file_tokens(const TokenFiles& files, const AddedTokens& own,
                                         const std::map<int64_t, std::string>& overrides) {
  return FileTokensReader(files, own, overrides).read();
}

}  // namespace spillway::text
