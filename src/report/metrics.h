// metrics.jsonl: a JSON object per optimizer step, one per line (io/step_lines.h).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "io/step_lines.h"

namespace spillway {

struct MetricField {
  std::string name;  // as TRL has it: step, epoch, loss, grad_norm, ...
  std::variant<int64_t, double> value;
};

// Appends the shortest text that reads back as the same number; null for numbers that are not finite, which JSON cannot
// express.
void append_number(double value, fmt::memory_buffer& out);

// Appends the fields as one line with one JSON object.
void append_metrics_line(std::span<const MetricField> fields, fmt::memory_buffer& out);

class MetricsWriter {
 public:
  // Opens the file as StepLines does. Of the lines of `resumed_step`, keeps an evaluation if the checkpoint was written
  // after it (`is_evaluated`), but not one of weights that were kept at the end of the run.
  MetricsWriter(const std::filesystem::path& path, int64_t resumed_step, bool is_evaluated = true);

  // Writes one line; allocates nothing. Throws MachineError if the disk is full.
  void write(std::span<const MetricField> fields);
  void write(std::initializer_list<MetricField> fields) { write(std::span(fields.begin(), fields.size())); }
  void sync() { lines_.sync(); }

 private:
  StepLines lines_;
  fmt::memory_buffer line_;
};

}  // namespace spillway
