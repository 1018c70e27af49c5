// Feeds GGUF files to the conversion of their settings and tokenizers; a change of the tiny golden files gets far.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "io/gguf.h"
#include "model/gguf/config.h"
#include "model/gguf/tokenizer.h"
#include "tests/support/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  try {
    const MemoryFile memory(data, size);
    const GgufFile file(memory.path());
    const GgufTokenizerFiles tokenizer = convert_gguf_tokenizer(file);
    const GgufModel model = read_gguf_model(file);
    (void)gguf_config(file, model, tokenizer, DType::kBF16);
  } catch (const InputError&) {
  }
  return 0;
}
