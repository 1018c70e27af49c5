// metrics.jsonl: a JSON object per optimizer step, one per line.
//
// A line reaches the file whole, in one write, so that a killed run leaves at most one line without an end, and a
// resumed run continues the file as if it had never stopped.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "io/file.h"

namespace spillway {

struct MetricField {
  std::string name;  // as TRL has it: step, epoch, loss, grad_norm, ...
  std::variant<int64_t, double> value;
};

// Appends the shortest text that reads back as the same number; what is not finite becomes null, as JSON has no word
// for it.
void append_number(double value, fmt::memory_buffer& out);

class MetricsWriter {
 public:
  // A run that starts anew (`resumed_step` 0) begins an empty file. One that goes on after a step keeps the lines up to
  // that step and cuts what follows, and any line that is not whole. Throws InputError where `path` is no regular file,
  // MachineError where it cannot be written.
  MetricsWriter(const std::filesystem::path& path, int64_t resumed_step);

  // Writes one line; allocates nothing. Throws MachineError where the disk is full.
  void write(std::span<const MetricField> fields);
  void write(std::initializer_list<MetricField> fields) { write(std::span(fields.begin(), fields.size())); }
  // Brings all lines to the disk: before a checkpoint takes its name, so that none after it is missing.
  void sync();

 private:
  std::string path_;
  FileDescriptor file_;
  fmt::memory_buffer line_;
};

}  // namespace spillway
