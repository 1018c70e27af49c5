// Input: a byte that picks what is read, then a row as a safetensors file, rows as a Parquet file, or a part of the
// latter: a page's header, levels, a block of Snappy or LZ4.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/clips/clip_rows.h"
#include "data/files/block_codecs.h"
#include "data/files/page_header.h"
#include "data/files/run_lengths.h"

namespace {

using namespace spillway;
namespace fs = std::filesystem;

// The demands that the files in tests/golden/clips meet.
constexpr data::ClipDemands kDemands{.channels = 2, .patch = {1, 2, 2}, .max_positions = 64, .text_width = 3};

void read_rows(const char* name, std::string_view content) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / name, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
  const data::ClipRows rows({{.path = folder.path().string()}}, kDemands, "datasets");
  for (int64_t i = 0; i < rows.size(); ++i) (void)rows.read(i);
}

data::ByteSource bytes_of(std::string_view content) {
  return [content](char* into, size_t size) mutable {
    const size_t count = content.copy(into, size);
    content.remove_prefix(count);
    return count;
  };
}

void unpack(const data::ByteSource& source) {
  constexpr int kMaxReads = 1000;  // a small block can unpack to much
  char some[1000];
  for (int i = 0; i < kMaxReads && source(some, sizeof some) > 0; ++i) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(input + 1), size - 1);
  const auto bytes = std::as_bytes(std::span(content));
  constexpr int kMaxWidth = 32;
  constexpr int64_t kNumbers = 1000;
  try {
    switch (input[0] % 6) {
      case 0:
        read_rows("row.safetensors", content);
        break;
      case 1:
        read_rows("rows.parquet", content);
        break;
      case 2:
        (void)data::parse_page_header(bytes, "fuzz");
        break;
      case 3:
        (void)data::unpack_run_lengths(bytes, input[0] / 6 % (kMaxWidth + 1), kNumbers, "fuzz");
        break;
      case 4:
        unpack(data::unpack_snappy(bytes_of(content), "fuzz"));
        break;
      default:
        unpack(data::unpack_lz4(bytes_of(content), "fuzz"));
    }
  } catch (const InputError&) {
  }
  return 0;
}
