// Feeds text to the reader of diffusers' config.json. What it accepts must be usable: each parameter has elements, a
// number of them that can be counted, and a name of its own.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/dit/wan.h"
#include "model/dit/wan_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    WanConfig config = parse_wan_config(text, "config.json");
    constexpr int64_t kLayersBuilt = 2;  // all are alike
    config.num_layers = std::min(config.num_layers, kLayersBuilt);
    std::set<std::string> names;
    for (const Parameter& p : parameters_of(*make_wan(config))) {
      SPILLWAY_CHECK(p.shape.elems() > 0, "{} is empty", p.name);
      SPILLWAY_CHECK(p.written_shape().elems() == p.shape.elems(), "{} is written in another size", p.name);
      SPILLWAY_CHECK(names.insert(p.name).second, "{} is there twice", p.name);
    }
  } catch (const InputError&) {
  }
  return 0;
}
