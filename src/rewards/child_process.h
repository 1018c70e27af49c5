// A program that answers lines of text with lines of text: what a reward function outside of this process runs in.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::rewards {

// In a process group of its own, so that a terminal's Ctrl-C leaves it alone, and all that it starts can be ended with
// it. Linux kills it where this process or the thread that made it ends first.
class ChildProcess {
 public:
  // Looks for the program on PATH unless it has a slash. Throws InputError at `where` where it cannot be run.
  ChildProcess(const std::vector<std::string>& command, std::string_view where);
  // Closes its input, gives it two seconds to end by itself unless it owes a line, and kills what is left of its
  // group.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) = delete;

  // What its standard error is shown behind, line by line. Where it says itself which of several functions speaks, a
  // line that begins with kSpeaker names the label of those after it.
  static constexpr char kSpeaker = '\x1e';
  void set_label(std::string label, bool says_itself = false) {
    label_ = std::move(label);
    says_itself_ = says_itself;
  }

  // Puts text into the queue for its standard input; read_line() writes it.
  void send(std::string_view text);
  // Whether it wrote what nobody has read.
  [[nodiscard]] bool has_output();

  enum class Outcome { kLine, kLate, kEnded, kTooLong };
  struct Read {
    Outcome outcome = Outcome::kLine;
    std::string line;  // of kLine, without the line break
  };
  // Its next line, with what is queued written and its standard error shown meanwhile. After anything but a line it
  // is of no more use. Throws Interrupted where a signal asks this process to end.
  [[nodiscard]] Read read_line(double timeout_seconds, size_t most_bytes);

  // How it ended, for a message ("ended with exit status 1"), and by which signal, 0 for none. A child that only
  // closed its output is killed. For after kEnded.
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
  bool exited_ = false, reaped_ = false;  // until it is reaped, its number is nobody else's
  bool is_asked_ = false;                 // for a line that has not come
  siginfo_t status_{};
  std::string label_;
  bool says_itself_ = false;
  std::string to_write_;
  size_t written_ = 0;
  std::string output_;   // what it wrote and nobody has read
  size_t searched_ = 0;  // so much of it holds no line break
  std::string errors_;   // the line of its standard error that is not complete
};

}  // namespace spillway::rewards
