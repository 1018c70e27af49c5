// Event files for TensorBoard: records of the TFRecord format, each an Event of tensorflow/core/util/event.proto in
// Protocol Buffers' wire format, of which only a few fields are needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "report/trackers/append_file.h"
#include "report/trackers/tracker.h"

namespace spillway {

// Return the CRC-32C (Castagnoli) of bytes, and the form in which TFRecord stores it: rotated, plus a constant.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);
[[nodiscard]] uint32_t masked_crc32c(std::string_view bytes);

// Returns transformers' name for the folder of a run within OUTPUT: "runs/Nov25_22-14-41_HOST". `started` is the time
// at which the run began (base/local_time.h), so that a resumed run writes to the same folder.
[[nodiscard]] std::filesystem::path event_folder(const std::filesystem::path& output, std::string_view started);

class EventFile : public Tracker {
 public:
  // Creates a new file in the folder, which need not exist. If the run resumes after `resumed_step` (0: a new run),
  // tells TensorBoard to discard later steps in earlier files of the folder. Throws MachineError if it cannot be
  // written.
  EventFile(const std::filesystem::path& folder, int64_t resumed_step);

  // Write in f32, and allocate nothing after the first step.
  void begin_step(int64_t step) override;
  void add(std::string_view prefix, std::string_view key, double value) override;
  void end_step() override;
  void sync() override { file_.sync(); }
  void finish(RunEnd) override { sync(); }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write_event(int64_t step, int field, std::string_view content);

  AppendFile file_;
  int64_t step_ = 0;
  std::string summary_, value_, record_, tag_;
};

}  // namespace spillway
