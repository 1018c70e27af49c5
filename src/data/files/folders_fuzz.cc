// Input: a byte that picks a file, then its content: what describes a data folder (README.md, the files of
// save_to_disk), or a Parquet or Arrow file.
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/files/record_reader.h"
#include "data/files/split_files.h"

namespace {

using namespace spillway;
namespace fs = std::filesystem;

void write(const fs::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

void find_splits(const fs::path& folder, const char* metadata, std::string_view content) {
  write(folder / metadata, content);
  write(folder / "train.jsonl", "{}");
  for (const char* split : {"train", "test"}) {
    try {
      (void)data::split_files(folder, "", split);
    } catch (const InputError&) {
    }
  }
}

void read_rows(const fs::path& file, data::RecordFormat format, std::string_view content) {
  write(file, content);
  constexpr int kMaxRecords = 1000;
  data::RecordReader reader(file, format);
  data::Record record;
  for (int i = 0; i < kMaxRecords && reader.next(record); ++i) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(input + 1), size - 1);
  const TemporaryFolder folder;
  try {
    switch (input[0] % 5) {
      case 0:
        find_splits(folder.path(), "README.md", content);
        break;
      case 1:
        find_splits(folder.path(), "state.json", content);
        break;
      case 2:
        find_splits(folder.path(), "dataset_dict.json", content);
        break;
      case 3:
        read_rows(folder.path() / "rows.parquet", data::RecordFormat::kParquet, content);
        break;
      default:
        read_rows(folder.path() / "rows.arrow", data::RecordFormat::kArrow, content);
    }
  } catch (const InputError&) {
  }
  return 0;
}
