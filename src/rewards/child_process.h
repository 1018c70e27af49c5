// A program that answers lines of text with lines of text: runs a reward function outside of this process.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::rewards {

// Runs in a process group of its own, so that a terminal's Ctrl-C does not reach it, and all that it starts can be
// ended with it. Linux kills it if this process or the thread that made it ends first.
class ChildProcess {
 public:
  // Looks for the program on PATH unless it has a slash. Throws InputError at `where` if it cannot be run.
  ChildProcess(const std::vector<std::string>& command, std::string_view where);
  // Closes its input, gives it two seconds to end by itself unless it owes a line, and kills what is left of its group.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) = delete;

  // Sets the label that its standard error is shown behind, line by line. If it says itself which of several functions
  // speaks, a line that begins with kSpeaker names the label of the lines after it.
  static constexpr char kSpeaker = '\x1e';
  void set_label(std::string label, bool says_itself = false) {
    label_ = std::move(label);
    says_itself_ = says_itself;
  }

  // Queues text for its standard input; read_line() writes it.
  void send(std::string_view text);
  // Returns true if it wrote output that has not been read.
  [[nodiscard]] bool has_output();

  enum class Outcome { kLine, kLate, kEnded, kTooLong };
  struct Read {
    Outcome outcome = Outcome::kLine;
    std::string line;  // if kLine: the line, without the line break
  };
  // Returns its next line; meanwhile writes queued text and shows its standard error. After any outcome but a line it
  // cannot be used any more. Throws Interrupted if a signal asks this process to end.
  [[nodiscard]] Read read_line(double timeout_seconds, size_t most_bytes);

  // Returns how it ended, for a message ("ended with exit status 1"), and by which signal, 0 for none. Kills a child
  // that only closed its output. REQUIRES: the outcome was kEnded.
  struct End {
    std::string text;
    int signal = 0;
  };
  [[nodiscard]] End end();

  // Shows a text as if it came from its standard error, behind a label.
  static void show(std::string_view label, std::string_view text);

 private:
  void start(const std::vector<std::string>& command, std::string_view where);
  // Waits at most so long until something can be written or read, and does it.
  void exchange(double seconds);
  void write_some();
  void read_some();
  void show_errors();
  void show_line(std::string_view line);
  [[nodiscard]] bool has_exited();
  [[nodiscard]] bool wait_for_exit(double seconds);
  void kill_group();

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;     // our ends of its standard streams
  bool exited_ = false, reaped_ = false;  // until it is reaped, no other process gets its number
  bool is_asked_ = false;                 // whether it owes a line that has not come
  siginfo_t status_{};
  std::string label_;
  bool says_itself_ = false;
  std::string to_write_;
  size_t written_ = 0;
  std::string output_;   // output that has not been read
  size_t searched_ = 0;  // the length of its beginning that has no line break
  std::string errors_;   // the line of its standard error that is not complete
};

}  // namespace spillway::rewards
