// Event files, which TensorBoard reads: records of the TFRecord format, each an Event of
// tensorflow/core/util/event.proto in Protocol Buffers' wire format, of which only a few fields are needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/file.h"

namespace spillway {

// CRC-32C (Castagnoli) of bytes, and the form in which TFRecord stores it: rotated, plus a constant.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);
[[nodiscard]] uint32_t masked_crc32c(std::string_view bytes);

// What transformers calls the folder of a run within OUTPUT: "runs/Nov25_22-14-41_HOST". `started` is the time of its
// beginning (base/local_time.h), so that a run that goes on writes there, too.
[[nodiscard]] std::filesystem::path event_folder(const std::filesystem::path& output, std::string_view started);

class EventFile {
 public:
  // Creates a file of its own in the folder, which need not be there. Of a run that goes on after `resumed_step` (0:
  // one that begins) TensorBoard forgets what earlier files of the folder have of later steps. Throws MachineError
  // where it cannot be written.
  EventFile(const std::filesystem::path& folder, int64_t resumed_step);

  // Numbers of a step, under TensorBoard's tags: begin_step(), add() each, end_step(), which writes. Allocates nothing
  // once it has seen a step. Throws MachineError where the disk is full.
  void begin_step(int64_t step);
  // As "PREFIX/KEY", in f32: "train/loss".
  void add(std::string_view prefix, std::string_view key, double value);
  void end_step();
  // Brings all to the disk.
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
