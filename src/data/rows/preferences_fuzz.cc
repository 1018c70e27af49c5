// Input: a byte that picks the objective and the type, then JSON lines.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/files/record_reader.h"
#include "data/rows/preference_rows.h"

namespace {

using namespace spillway;

constexpr std::string_view kTokenizer =
    R"({"model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "</s>": 1, "a": 2, "b": 3}},
  "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [{"id": 1, "content": "</s>", "special": true}]})";
constexpr std::string_view kConfig = R"({"eos_token": "</s>"})";
constexpr const char* kTypes[] = {"",
                                  "chatml.default",
                                  "llama3.argilla_chat",
                                  "chatml.ultra",
                                  "chat_template.default",
                                  "chat_template.argilla_chat",
                                  "chat_template.argilla",
                                  "zephyr.nectar",
                                  "bradley_terry.chat_template"};
constexpr data::Objective kObjectives[] = {data::Objective::kPairs, data::Objective::kUnpaired, data::Objective::kOrpo,
                                           data::Objective::kReward};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size == 0) return 0;
  static const text::Tokenizer tokenizer = text::Tokenizer::from_json(kTokenizer, kConfig, "fuzz");
  data::DatasetConfig config;
  config.type = {.given = true, .name = kTypes[(input[0] >> 2) % std::size(kTypes)]};
  data::RowOptions options;
  options.objective = kObjectives[input[0] & 3];
  options.chat_template = "chatml";
  try {
    const data::PreferenceBuilder builder(config, options, tokenizer);
    std::string_view rest(reinterpret_cast<const char*>(input + 1), size - 1);
    const auto source = [&](char* into, size_t room) {
      const size_t count = std::min(room, rest.size());
      std::memcpy(into, rest.data(), count);
      rest.remove_prefix(count);
      return count;
    };
    data::RecordReader reader(source, data::RecordFormat::kJson, "fuzz");
    data::Record record;
    std::vector<data::PreferenceRow> rows;
    while (reader.next(record)) builder.build(record, rows);
  } catch (const InputError&) {
  }
  return 0;
}
