#include "model/token_ids.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "model/config_overrides.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = int64_t{1} << 26;
constexpr const char* kEos = "eos_token_id";
constexpr const char* kGeneration = "generation_config.json";

using Id = std::optional<int32_t>;

// Returns the id of a role if it has changed.
Id changed(Id before, Id now) { return before == now ? Id() : now; }

Json object_of(const std::string& text, std::string_view where) {
  auto json = parse_json<Json>(with_named_infinities(text), std::string(where));
  if (!json.is_object()) throw input_error(where, "expected a JSON object, got something else; correct it");
  return json;
}

// A list, whether the file has one, a number or nothing.
Json ends_in(const Json& json) {
  const auto found = json.find(kEos);
  if (found == json.end() || found->is_null()) return Json::array();
  return found->is_array() ? *found : Json::array({*found});
}

// Generation ends at any of the ids, the tokenizer's first.
void add_stop(Json& json, int32_t id) {
  Json ids = Json::array({id});
  for (const Json& one : ends_in(json)) {
    if (one != id) ids.push_back(one);
  }
  json[kEos] = ids.size() == 1 ? ids[0] : ids;
}

std::string text_or_nothing(const fs::path& path) {
  return fs::is_regular_file(path) ? read_file(path, kMaxBytes) : std::string();
}

}  // namespace

std::string with_token_ids(const std::string& text, const fs::path& path, const text::Tokenizer& before,
                           const text::Tokenizer& now) {
  const Id bos = changed(before.bos_id(), now.bos_id()), pad = changed(before.pad_id(), now.pad_id()),
           eos = changed(before.eos_id(), now.eos_id());
  const Json said = object_of(text, path.string());
  Json json = said;
  if (bos) json["bos_token_id"] = *bos;
  if (pad) json["pad_token_id"] = *pad;
  if (eos && path.filename() == kGeneration) {
    add_stop(json, *eos);
  } else if (eos) {
    json[kEos] = *eos;
  }
  return json == said ? text : json_text(json, 2) + "\n";
}

void save_token_ids(const fs::path& folder, const text::Tokenizer& before, const text::Tokenizer& now) {
  for (const char* name : kTokenIdFiles) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path)) continue;
    const std::string text = read_file(path, kMaxBytes);
    const std::string changed_text = with_token_ids(text, path, before, now);
    if (changed_text != text) write_file(path, changed_text);
  }
}

std::vector<int32_t> listed_ends(const fs::path& folder) {
  const fs::path path = folder / kGeneration;
  if (!fs::is_regular_file(path)) return {};
  std::vector<int32_t> ends;
  for (const Json& id : ends_in(object_of(read_file(path, kMaxBytes), path.string()))) {
    if (id.is_number_integer() && id >= 0 && id < INT32_MAX) ends.push_back(id.get<int32_t>());
  }
  return ends;
}

std::string with_ends(const std::string& generation, const std::string& config, std::span<const int32_t> ends,
                      std::string_view where) {
  const Json model = config.empty() ? Json::object() : object_of(config, where);
  Json json = generation.empty() ? Json{{"_from_model_config", true}} : object_of(generation, where);
  if (generation.empty()) {
    for (const char* key : {"bos_token_id", kEos, "pad_token_id"}) {
      if (model.contains(key) && !model[key].is_null()) json[key] = model[key];
    }
  }
  Json ids = ends_in(json);
  const size_t before = ids.size();
  for (const int32_t id : ends) {
    if (std::find(ids.begin(), ids.end(), Json(id)) == ids.end()) ids.push_back(id);
  }
  if (ids.size() == before) return generation;
  json[kEos] = ids.size() == 1 ? ids[0] : ids;
  return json_text(json, 2) + "\n";
}

void save_ends(const fs::path& folder, std::span<const int32_t> ends) {
  const std::string before = text_or_nothing(folder / kGeneration);
  const std::string now = with_ends(before, text_or_nothing(folder / "config.json"), ends, folder.string());
  if (now != before) write_file(folder / kGeneration, now);
}

}  // namespace spillway
