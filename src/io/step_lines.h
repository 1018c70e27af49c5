// A file of JSON lines, each of which has the step of the run that it belongs to.
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
  // A run that starts anew (`resumed_step` 0) begins an empty file. A resumed one keeps the lines whose "step" is up to
  // that and cuts the rest, and any line that is not whole. `stays`, if given, returns true for lines of that step
  // itself to keep: the first other one is cut, too, with all that follows. Throws InputError if `path` is no regular
  // file, MachineError if it cannot be written.
  using Stays = std::function<bool(const nlohmann::json& line)>;
  StepLines(const std::filesystem::path& path, int64_t resumed_step, const Stays& stays = {});

  // Writes whole lines, with their line breaks; allocates nothing. Throws as AtomicFile does, and takes back what a
  // failed call has written.
  void write(std::string_view lines);
  // Brings all lines to the disk: called before a checkpoint takes its name, so that no line before it is missing.
  void sync();

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace spillway
