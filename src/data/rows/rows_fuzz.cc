// Input: a byte that picks the format and the type, then a data file's content.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/files/record_reader.h"
#include "data/rows/row_builder.h"

namespace {

using namespace spillway;

constexpr std::string_view kTokenizer =
    R"({"model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0, "</s>": 1, "a": 2, "b": 3}},
  "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [{"id": 1, "content": "</s>", "special": true}]})";
constexpr std::string_view kConfig = R"({"eos_token": "</s>"})";
constexpr const char* kTypes[] = {
    "completion", "alpaca",     "alpaca_w_system", "chat_template", "input_output", "",         "-",
    "pretrain",   "reflection", "pygmalion",       "explainchoice", "metharme",     "sharegpt", "stepwise_supervised"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const text::Tokenizer tokenizer = text::Tokenizer::from_json(kTokenizer, kConfig, "fuzz");
  const auto format = (data[0] & 1) != 0 ? data::RecordFormat::kCsv : data::RecordFormat::kJson;
  const char* type = kTypes[(data[0] >> 1) % std::size(kTypes)];
  data::DatasetConfig config;
  config.type = {std::string_view(type) != "-", type};
  data::RowOptions options;
  options.chat_template = "chatml";
  if (config.type.name == "stepwise_supervised") options.objective = data::Objective::kSteps;
  try {
    const auto builder = data::make_row_builder(config, options, tokenizer);
    size_t at = 1;
    // A few bytes at a time, so that buffer ends fall everywhere.
    const auto source = [&](char* into, size_t room) {
      const size_t count = std::min<size_t>({room, size - at, 7});
      std::memcpy(into, data + at, count);
      at += count;
      return count;
    };
    data::RecordReader reader(source, format, "fuzz");
    data::Record record;
    std::vector<data::Row> rows;
    while (reader.next(record)) builder->build(record, rows);
  } catch (const InputError&) {
  }
  return 0;
}
