#include "model/token_ids.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = int64_t{1} << 26;
constexpr const char* kEos = "eos_token_id";

using Id = std::optional<int32_t>;

// Of the role where it has changed.
Id changed(Id before, Id now) { return before == now ? Id() : now; }

// Generation ends at any of the ids, the tokenizer's first.
void add_stop(Json& json, int32_t id) {
  Json ids = Json::array({id});
  const auto old = json.find(kEos);
  if (old != json.end() && !old->is_null()) {
    for (const Json& one : old->is_array() ? *old : Json::array({*old})) {
      if (one != id) ids.push_back(one);
    }
  }
  json[kEos] = ids.size() == 1 ? ids[0] : ids;
}

}  // namespace

std::string with_token_ids(const std::string& text, const fs::path& path, const text::Tokenizer& before,
                           const text::Tokenizer& now) {
  const Id bos = changed(before.bos_id(), now.bos_id()), pad = changed(before.pad_id(), now.pad_id()),
           eos = changed(before.eos_id(), now.eos_id());
  const auto said = parse_json<Json>(text, path.string());
  if (!said.is_object()) throw input_error(path.string(), "expected a JSON object, got something else; correct it");
  Json json = said;
  if (bos) json["bos_token_id"] = *bos;
  if (pad) json["pad_token_id"] = *pad;
  if (eos && path.filename() == "generation_config.json") {
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

}  // namespace spillway
