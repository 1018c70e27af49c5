#include "data/preferences.h"

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/sizes.h"
#include "io/file.h"

namespace spillway::data {
using Json = nlohmann::ordered_json;

std::vector<PreferenceRow> preferences_of(const RowTable& rows) {
  std::vector<PreferenceRow> result;
  reserve(result, rows.size());
  for (int64_t i = 0; i < rows.size(); ++i) result.push_back(preference_of(rows, i));
  return result;
}

int64_t remove_known(std::span<const PreferenceRow> others, std::vector<PreferenceRow>& rows) {
  const auto key_of = [](const PreferenceRow& row) { return std::tie(row.prompt_ids, row.completions, row.label); };
  std::set<decltype(key_of(rows.front()))> known;
  for (const PreferenceRow& row : others) known.insert(key_of(row));
  return static_cast<int64_t>(
      std::erase_if(rows, [&](const PreferenceRow& row) { return known.contains(key_of(row)); }));
}

int64_t count_tokens(std::span<const PreferenceRow> rows) {
  int64_t tokens = 0;
  for (const PreferenceRow& row : rows) {
    for (const auto& completion : row.completions) tokens += std::ssize(row.prompt_ids) + std::ssize(completion);
  }
  return tokens;
}

void write_preferences(const std::filesystem::path& path, std::span<const PreferenceRow> rows) {
  AtomicFile file(path);
  for (const PreferenceRow& row : rows) {
    Json line{{"prompt_ids", row.prompt_ids}};
    if (row.completions.size() == 1) {
      line["completion_ids"] = row.completions[0];
      line["label"] = row.label;
    } else {
      line["chosen_ids"] = row.completions[0];
      line["rejected_ids"] = row.completions[1];
    }
    file.append(line.dump() + "\n");
  }
  file.commit();
}

}  // namespace spillway::data
