// Preferences in a form of the user's own: `type` is a mapping of columns and formats.
#include <fmt/format.h>

#include <array>

#include "data/rows/preference_rows.h"
#include "data/rows/text_pattern.h"

namespace spillway::data {
namespace {

class UserDefinedFormat : public PreferenceFormat {
 public:
  UserDefinedFormat(const DatasetType& type, Objective objective)
      : type_(type),
        unpaired_(objective == Objective::kUnpaired),
        prompt_(pattern("prompt_format", "{prompt}", kPromptNames)),
        chosen_(pattern("chosen_format", "{chosen}", std::span(kChosen))),
        rejected_(pattern("rejected_format", "{rejected}", std::span(kRejected))),
        completion_(pattern("completion_format", "{completion}", std::span(kCompletion))) {}

  [[nodiscard]] PreferenceExample read(const Record& record) const override {
    PreferenceExample example;
    example.prompt = prompt_.fill([&](std::string_view name) {
      const std::string column = type_.property(fmt::format("field_{}", name), std::string(name).c_str());
      if (name == "system" && (!record.fields.contains(column) || record.fields[column].is_null()))
        return std::string();
      return text(record, column);
    });
    const auto completion = [&](const TextPattern& pattern, const char* key, const char* usual) {
      example.completions.emplace_back(
          pattern.fill([&](std::string_view) { return text(record, type_.property(key, usual)); }));
    };
    if (unpaired_) {
      completion(completion_, "field_completion", "completion");
      example.label = label_of(record, type_.property("field_label", "label"));
    } else {
      completion(chosen_, "field_chosen", "chosen");
      completion(rejected_, "field_rejected", "rejected");
    }
    return example;
  }

 private:
  static constexpr std::array<std::string_view, 2> kPromptNames = {"system", "prompt"};
  static constexpr std::array<std::string_view, 1> kChosen = {"chosen"}, kRejected = {"rejected"},
                                                   kCompletion = {"completion"};

  [[nodiscard]] TextPattern pattern(const char* key, const char* usual, std::span<const std::string_view> names) const {
    return {type_.property(key, usual), fmt::format("type.{}", key), names};
  }
  [[nodiscard]] static std::string text(const Record& record, const std::string& column) {
    return given_text_of(record, required_field(record, column, "type"), column);
  }

  DatasetType type_;
  bool unpaired_;
  TextPattern prompt_, chosen_, rejected_, completion_;
};

}  // namespace

std::unique_ptr<PreferenceFormat> make_user_defined_format(const DatasetType& type, Objective objective) {
  return std::make_unique<UserDefinedFormat>(type, objective);
}

}  // namespace spillway::data
