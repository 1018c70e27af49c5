// A file of JSON lines that say which step of a run they are of.
//
// A line reaches the file whole, in one write, so that a killed run leaves at most one line without an end, and a
// resumed run continues the file as if it had never stopped.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "io/file.h"

namespace spillway {

class StepLines {
 public:
  // A run that starts anew (`resumed_step` 0) begins an empty file. One that goes on after a step keeps the lines whose
  // "step" is up to that and cuts what follows, and any line that is not whole. `stays`, where there is one, says which
  // lines of that step itself are kept: the first of others is cut, too, and what follows. Throws InputError where
  // `path` is no regular file, MachineError where it cannot be written.
  using Stays = std::function<bool(const nlohmann::json& line)>;
  StepLines(const std::filesystem::path& path, int64_t resumed_step, const Stays& stays = {});

  // Writes whole lines, with their line breaks; allocates nothing. Throws as AtomicFile, and takes back what a failed
  // call has written.
  void write(std::string_view lines);
  // Brings all lines to the disk: before a checkpoint takes its name, so that none after it is missing.
  void sync();

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace spillway
