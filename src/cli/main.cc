#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "cli/commands.h"

namespace {

// A standard stream that is closed (`2>&-`) leaves its number to the first file that the program opens, and messages
// would be written into that. Opened the wrong way round, it still refuses what is written or read.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0)
      static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

// Memory that runs out in a function that may not throw, a destructor of a library among them, or on a thread ends the
// program here. What it was writing is cleared away by the next one (io/temporary_name.h).
std::terminate_handler usual_end = nullptr;

[[noreturn]] void end_program() {
  if (std::current_exception()) {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      // Nothing here may allocate.
      [[maybe_unused]] const auto written =
          ::write(STDERR_FILENO, spillway::kNoMemory.data(), spillway::kNoMemory.size());
      [[maybe_unused]] const auto ended = ::write(STDERR_FILENO, "\n", 1);
      ::_exit(spillway::kMachineFailed);
    } catch (...) {  // a bug: the usual end says what it is
    }
  }
  usual_end();
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  usual_end = std::set_terminate(end_program);
  // Makes a write beyond the file size limit (ulimit -f) an error instead of the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const spillway::InterruptHandlers handlers;
  std::vector<std::string> args;
  for (int i = 1; i < argc; ++i) args.emplace_back(argv[i]);
  return spillway::run_command_line(args);
}
