// Feeds GGUF files to the conversion of their settings and tokenizers; a change of the tiny golden files gets far.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "io/gguf.h"
#include "model/gguf/config.h"
#include "model/gguf/tokenizer.h"
#include "model/gguf/weights.h"
#include "tests/support/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  try {
    const MemoryFile memory(data, size);
    const GgufFile file(memory.path());
    check_gguf_model(file);
    const GgufTokenizerFiles tokenizer = convert_gguf_tokenizer(file);
    const std::string config = json_text(gguf_config(file, tokenizer, DType::kBF16));
    (void)imported_gguf_description(config, "config.json");
  } catch (const InputError&) {
  }
  return 0;
}
