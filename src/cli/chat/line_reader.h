// What a user types, line by line.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/catch_interrupt.h"

namespace spillway {

struct TypedLine {
  std::string text;          // without its end
  bool interrupted = false;  // by Ctrl-C, and the text is lost
};

// While it lives, Ctrl-D at a terminal is a key like others, which waits for who reads keys: the system would take one
// that is typed before as the end of a line that nobody reads, and it would be lost. Nothing where lines are not
// edited at a terminal. One at a time, around all reading.
class KeptEndOfFile {
 public:
  KeptEndOfFile();
  ~KeptEndOfFile();
  KeptEndOfFile(KeptEndOfFile&&) = delete;

 private:
  bool is_changed_ = false;
  unsigned char before_ = 0;  // the terminal's character for the end of a file
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Waits for a line behind `prompt`; nothing at the end of the input. Throws MachineError where it cannot be read.
  [[nodiscard]] virtual std::optional<TypedLine> read(const std::string& prompt) = 0;
};

// At a terminal lines can be edited and earlier ones called up, by libedit. Elsewhere the lines of standard input, and
// no prompt. Borrows what takes Ctrl-C. One at a time.
[[nodiscard]] std::unique_ptr<LineReader> open_line_reader(CatchInterrupt& interrupts);

}  // namespace spillway
