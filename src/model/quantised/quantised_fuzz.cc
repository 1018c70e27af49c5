// Feeds text to the readers of quantization_config and quant_state, and files to the reader of quantised weights.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json_field.h"
#include "base/temporary_folder.h"
#include "model/quantised/quantisation_config.h"
#include "model/quantised/quantised_tensors.h"
#include "tests/support/dequantised.h"
#include "tests/support/memory_file.h"

namespace {

using namespace spillway;

template <typename Read>
void read_bravely(const Read& read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

void read_weights(const SafetensorsFolder& folder) {
  constexpr int64_t kMaxElems = int64_t{1} << 20;
  for (const auto& entry : find_quantised_tensors(folder)) {
    if (entry.second.shape.elems() > kMaxElems) continue;
    read_bravely([&] { (void)testing::dequantised(folder, entry.second); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_bravely([&] {
    const JsonDocument document(text, "config.json");
    const QuantisationConfig config = parse_quantisation_config(document.root());
    (void)quantisation_config_json(config);
  });
  read_bravely([&] {
    const QuantState state = parse_quant_state(text, "quant_state");
    const QuantState again = parse_quant_state(quant_state_json(state), "quant_state");
    SPILLWAY_CHECK(
        again.format == state.format && again.shape == state.shape && again.nested_offset == state.nested_offset,
        "{} is another state", quant_state_json(state));
  });
  static const TemporaryFolder kFolder;
  const MemoryFile memory(data, size);
  const std::filesystem::path link = kFolder.path() / "model.safetensors";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(memory.path(), link);
  read_bravely([&] { read_weights(SafetensorsFolder(kFolder.path())); });
  return 0;
}
