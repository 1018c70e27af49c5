// Feeds tokenizer.json, a zero byte, and a text. A file that is read must encode and decode any text, or say why not.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace {

constexpr size_t kLongestInput = 1 << 16;
constexpr std::string_view kText =
    "Hello  w\xC3\xB6rld 123\n\n\t<s>ab abab caf\x65\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80\xFF";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using spillway::text::Tokenizer;
  if (size > kLongestInput) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(input.substr(0, end), "", "fuzz");
    for (const std::string_view text : {kText, input.substr(end)}) {
      const std::vector<int32_t> ids = tokenizer.encode(text, true);
      const std::string decoded = tokenizer.decode(ids, false);
      Tokenizer::StreamDecoder stream(tokenizer, true);
      std::string streamed;
      for (const int32_t id : ids) streamed += stream.push(id);
      streamed += stream.finish();
    }
  } catch (const spillway::InputError&) {
  }
  return 0;
}
