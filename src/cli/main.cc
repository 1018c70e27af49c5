#include <fcntl.h>
#include <unistd.h>

#include <csignal>
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

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  // A file that grows beyond a limit (ulimit -f) is an error of that write, not the sudden end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const spillway::InterruptHandlers handlers;
  std::vector<std::string> args;
  for (int i = 1; i < argc; ++i) args.emplace_back(argv[i]);
  return spillway::run_command_line(args);
}
