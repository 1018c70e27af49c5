// Event files for TensorBoard: records of the TFRecord format, each an Event of tensorflow/core/util/event.proto in
// Protocol Buffers' wire format, of which only a few fields are needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/file.h"

namespace spillway {

// Return the CRC-32C (Castagnoli) of bytes, and the form in which TFRecord stores it: rotated, plus a constant.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);
[[nodiscard]] uint32_t masked_crc32c(std::string_view bytes);

// Returns transformers' name for the folder of a run within OUTPUT: "runs/Nov25_22-14-41_HOST". `started` is the time
// at which the run began (base/local_time.h), so that a resumed run writes to the same folder.
[[nodiscard]] std::filesystem::path event_folder(const std::filesystem::path& output, std::string_view started);

class EventFile {
 public:
  // Creates a new file in the folder, which need not exist. If the run resumes after `resumed_step` (0: a new run),
  // tells TensorBoard to discard later steps in earlier files of the folder. Throws MachineError if it cannot be
  // written.
  EventFile(const std::filesystem::path& folder, int64_t resumed_step);

  // Write the numbers of a step under TensorBoard's tags: begin_step(), then add() for each, then end_step(), which
  // writes. They allocate nothing after the first step. They throw MachineError if the disk is full.
  void begin_step(int64_t step);
  // Adds "PREFIX/KEY" in f32: "train/loss".
  void add(std::string_view prefix, std::string_view key, double value);
  void end_step();
  // Flushes to the disk.
  void sync();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void write_event(int64_t step, int field, std::string_view content);

  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t step_ = 0;
  std::string summary_, value_, record_;
};

}  // namespace spillway
