#include "cli/chat/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <utility>

#include "base/error.h"

namespace spillway {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 26;

enum class Waited { kInput, kInterrupt };

// Waits until standard input has something, or ends.
Waited wait(CatchInterrupt& interrupts) {
  std::array<pollfd, 2> files = {{{STDIN_FILENO, POLLIN, 0}, {interrupts.fd(), POLLIN, 0}}};
  for (;;) {
    const int ready = ::poll(files.data(), files.size(), -1);
    if (ready < 0 && errno != EINTR)
      throw machine_error("standard input", "expected to wait for a line, got an error; use another input");
    if (ready <= 0) continue;
    if (files[1].revents != 0 && interrupts.take()) return Waited::kInterrupt;
    if (files[0].revents != 0) return Waited::kInput;
  }
}

class PlainLines : public LineReader {
 public:
  explicit PlainLines(CatchInterrupt& interrupts) : interrupts_(interrupts) {}

  std::optional<TypedLine> read(const std::string&) override {
    for (;;) {
      if (const size_t end = unread_.find('\n'); end != std::string::npos) {
        TypedLine line{unread_.substr(0, end)};
        unread_.erase(0, end + 1);
        if (line.text.ends_with('\r')) line.text.pop_back();
        return line;
      }
      if (ended_ && unread_.empty()) return std::nullopt;
      if (ended_) return TypedLine{std::exchange(unread_, {})};
      if (wait(interrupts_) == Waited::kInterrupt) return TypedLine{.interrupted = true};
      fill();
    }
  }

 private:
  void fill() {
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return;
    if (count < 0) throw machine_error("standard input", "expected to read a line, got an error; use another input");
    ended_ = count == 0;
    unread_.append(bytes.data(), static_cast<size_t>(count));
    if (unread_.size() > kMaxLineBytes)
      throw input_error("standard input", "expected lines of at most {} bytes, got a longer one; shorten it",
                        kMaxLineBytes);
  }

  CatchInterrupt& interrupts_;
  std::string unread_;
  bool ended_ = false;
};

class EditedLines : public LineReader {
 public:
  explicit EditedLines(CatchInterrupt& interrupts) : interrupts_(interrupts) {
    std::setlocale(LC_CTYPE, "");
    // Terminals use UTF-8 even if no locale is set.
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = ::el_init("spillway", stdin, stdout, stderr);
    history_ = ::history_init();
    if (edit_ == nullptr || history_ == nullptr)
      throw machine_error("terminal", "expected to edit lines, got an error; see that TERM names the terminal");
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, 1000);
    ::history(history_, &event, H_SETUNIQUE, 1);
    ::el_set(edit_, EL_CLIENTDATA, this);
    ::el_set(edit_, EL_PROMPT, prompt_of);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_SIGNAL, 1);  // a signal that ends or stops the program finds the terminal as it was
    ::el_set(edit_, EL_HIST, ::history, history_);
    ::el_set(edit_, EL_GETCFN, next_character);
    ::el_source(edit_, nullptr);  // the user's own keys
  }
  ~EditedLines() override {
    if (edit_ != nullptr) ::el_end(edit_);
    if (history_ != nullptr) ::history_end(history_);
  }
  EditedLines(EditedLines&&) = delete;

  std::optional<TypedLine> read(const std::string& prompt) override {
    prompt_ = prompt;
    interrupted_ = false;
    error_ = nullptr;
    int count = 0;
    const char* typed = ::el_gets(edit_, &count);
    if (error_) std::rethrow_exception(error_);
    if (typed == nullptr || count <= 0 || interrupted_) {
      std::fputs("\n", stdout);  // behind the prompt
      if (interrupted_) return TypedLine{.interrupted = true};
      return std::nullopt;
    }
    TypedLine line{std::string(typed, static_cast<size_t>(count))};
    while (line.text.ends_with('\n') || line.text.ends_with('\r')) line.text.pop_back();
    HistEvent event;
    if (!line.text.empty()) ::history(history_, &event, H_ENTER, line.text.c_str());
    return line;
  }

 private:
  static EditedLines& of(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<EditedLines*>(self);
  }

  static char* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }

  // 1 for a character, 0 at the end, and after Ctrl-C, -1 for an error. libedit's own would read on after a signal.
  static int next_character(EditLine* edit, wchar_t* character) {
    EditedLines& self = of(edit);
    try {
      std::mbstate_t state{};
      for (;;) {
        if (wait(self.interrupts_) == Waited::kInterrupt) {
          self.interrupted_ = true;
          return 0;
        }
        char byte = 0;
        const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return static_cast<int>(count);
        const size_t bytes = std::mbrtowc(character, &byte, 1, &state);
        if (bytes == static_cast<size_t>(-2)) continue;  // the character goes on
        if (bytes != static_cast<size_t>(-1)) return 1;
        state = {};  // no character: what comes next may be one
      }
    } catch (...) {  // not through a library in C
      self.error_ = std::current_exception();
      return -1;
    }
  }

  CatchInterrupt& interrupts_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
  bool interrupted_ = false;
  std::exception_ptr error_;
};

// A byte that never occurs in UTF-8. It is neither Ctrl-D nor "none", which libedit would replace with Ctrl-D again.
constexpr cc_t kNoKey = 0xFF;

bool is_edited() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0; }

// A process in the background must not change its terminal: it would be stopped.
bool is_in_foreground() { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

}  // namespace

KeptEndOfFile::KeptEndOfFile() {
  termios state{};
  if (!is_edited() || !is_in_foreground() || ::tcgetattr(STDIN_FILENO, &state) != 0) return;
  before_ = state.c_cc[VEOF];
  state.c_cc[VEOF] = kNoKey;
  is_changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &state) == 0;
}

KeptEndOfFile::~KeptEndOfFile() {
  termios state{};
  if (!is_changed_ || ::tcgetattr(STDIN_FILENO, &state) != 0) return;
  state.c_cc[VEOF] = before_;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &state);
}

std::unique_ptr<LineReader> open_line_reader(CatchInterrupt& interrupts) {
  if (is_edited()) return std::make_unique<EditedLines>(interrupts);
  return std::make_unique<PlainLines>(interrupts);
}

}  // namespace spillway
