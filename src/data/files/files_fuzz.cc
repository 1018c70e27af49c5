// Input: a byte that picks what is read, then a compressed file's content, the text of a split, or a pattern for
// prompts.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/files/byte_source.h"
#include "data/files/record_reader.h"
#include "data/files/split_slice.h"
#include "data/rows/text_pattern.h"

namespace {

using namespace spillway;

// A few bytes at a time, so that buffer ends fall everywhere.
data::ByteSource drip(std::string_view bytes) {
  return [bytes](char* into, size_t room) mutable {
    const size_t count = std::min<size_t>({room, bytes.size(), 7});
    std::memcpy(into, bytes.data(), count);
    bytes.remove_prefix(count);
    return count;
  };
}

void read_text(std::string_view bytes) {
  constexpr int kMaxRecords = 10000;  // a small file can unpack to many lines
  data::RecordReader reader(data::decompress(drip(bytes), "fuzz"), data::RecordFormat::kText, "fuzz");
  data::Record record;
  for (int i = 0; i < kMaxRecords && reader.next(record); ++i) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(input + 1), size - 1);
  try {
    switch (input[0] % 3) {
      case 0:
        read_text(rest);
        break;
      case 1:
        for (const data::SplitSlice& slice : data::parse_split(rest)) (void)slice.range(1000);
        break;
      default:
        (void)data::TextPattern(rest, "fuzz").fill([](std::string_view name) { return std::string(name); });
    }
  } catch (const InputError&) {
  }
  return 0;
}
