#include "model/token_ids.h"

#include <algorithm>
#include <cstdint>
#include <functional>
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

void edit(const fs::path& path, const std::function<void(Json&)>& change) {
  if (!fs::is_regular_file(path)) return;
  const std::string text = read_file(path, kMaxBytes);
  const auto before = parse_json<Json>(text, path.string());
  if (!before.is_object()) throw input_error(path.string(), "expected a JSON object, got something else; correct it");
  Json json = before;
  change(json);
  if (json != before) write_file(path, json_text(json, 2) + "\n");
}

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

void save_token_ids(const fs::path& folder, const text::Tokenizer& before, const text::Tokenizer& now) {
  const Id bos = changed(before.bos_id(), now.bos_id()), pad = changed(before.pad_id(), now.pad_id()),
           eos = changed(before.eos_id(), now.eos_id());
  const auto set_others = [&](Json& json) {
    if (bos) json["bos_token_id"] = *bos;
    if (pad) json["pad_token_id"] = *pad;
  };
  edit(folder / "config.json", [&](Json& json) {
    set_others(json);
    if (eos) json[kEos] = *eos;
  });
  edit(folder / "generation_config.json", [&](Json& json) {
    set_others(json);
    if (eos) add_stop(json, *eos);
  });
}

}  // namespace spillway
