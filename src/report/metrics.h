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

// Appends the shortest text that reads back as the same number; what is not finite becomes null, as JSON has no word
// for it.
void append_number(double value, fmt::memory_buffer& out);

class MetricsWriter {
 public:
  // As StepLines. Of the lines of `resumed_step` an evaluation stays where the checkpoint was written behind it
  // (`is_evaluated`), and none of weights that were kept at the end of the run.
  MetricsWriter(const std::filesystem::path& path, int64_t resumed_step, bool is_evaluated = true);

  // Writes one line; allocates nothing. Throws MachineError where the disk is full.
  void write(std::span<const MetricField> fields);
  void write(std::initializer_list<MetricField> fields) { write(std::span(fields.begin(), fields.size())); }
  void sync() { lines_.sync(); }

 private:
  StepLines lines_;
  fmt::memory_buffer line_;
};

}  // namespace spillway
