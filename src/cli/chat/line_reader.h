// Reads lines that a user types.
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

// While an object of this class exists, Ctrl-D at a terminal is an ordinary key, which waits for a reader of keys: the
// system would otherwise take one that is typed ahead as the end of a line that nobody reads, and lose it. Does nothing
// where lines are not edited at a terminal. There may be one at a time; it must enclose all reading.
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
  // Waits for a line after `prompt`; returns nothing at the end of the input. Throws MachineError if it cannot be read.
  [[nodiscard]] virtual std::optional<TypedLine> read(const std::string& prompt) = 0;
};

// Opens a reader. At a terminal, lines can be edited and earlier ones recalled, with libedit; elsewhere it reads the
// lines of standard input, without a prompt. Borrows the handler of Ctrl-C. There may be one at a time.
[[nodiscard]] std::unique_ptr<LineReader> open_line_reader(CatchInterrupt& interrupts);

}  // namespace spillway
