// Feeds text to the readers of config.json and adapter_config.json. What they accept must be usable.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/adapter.h"
#include "model/config.h"
#include "model/modules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const ModelConfig config = parse_model_config(text, "config.json");
    for (const WeightSpec& weight : model_weights(config))
      SPILLWAY_CHECK(weight.shape.elems() > 0, "{} is empty", weight.name);
    (void)rope_inverse_frequencies(config);
  } catch (const InputError&) {
  }
  try {
    (void)parse_adapter_config(text, "adapter_config.json");
  } catch (const InputError&) {
  }
  return 0;
}
