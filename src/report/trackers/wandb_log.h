// A file of wandb's records, in the log format of LevelDB (https://github.com/google/leveldb/blob/main/doc/
// log_format.md) behind a header of wandb's own, with zlib's CRC-32 in place of CRC-32C: blocks of 32 KiB, in which a
// record is a fragment or several, each with its checksum, length and place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "report/trackers/append_file.h"

namespace spillway {

class WandbLog {
 public:
  // Goes on with a file that is there: keeps its records up to the first that is damaged, or for which `keeps` returns
  // false, and cuts the rest. Without `keeps`, begins anew. Throws InputError for a file that is none of wandb's,
  // MachineError if it cannot be written.
  using Keeps = std::function<bool(std::string_view record)>;
  explicit WandbLog(const std::filesystem::path& path, const Keeps& keeps = {});

  // Writes a record, in one call. Throws MachineError if the disk is full.
  void write(std::string_view record);
  void sync() { file_.sync(); }
  // Returns the number of records in the file.
  [[nodiscard]] int64_t records() const { return records_; }

 private:
  void scan(const std::filesystem::path& path, const Keeps& keeps);

  int64_t records_ = 0, end_ = 0;
  AppendFile file_;
  std::string written_;
};

}  // namespace spillway
