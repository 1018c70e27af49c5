// Feeds text to the readers of config.json and adapter_config.json. What they accept must be usable.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/adapter.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const DecoderConfig config = parse_decoder_config(text, "config.json");
    for (const Parameter& p : parameters_of(*make_decoder(config)))
      SPILLWAY_CHECK(p.shape.elems() > 0, "{} is empty", p.name);
  } catch (const InputError&) {
  }
  try {
    (void)parse_adapter_config(text, "adapter_config.json");
  } catch (const InputError&) {
  }
  return 0;
}
