#include <csignal>
#include <string>
#include <vector>

#include "cli/commands.h"

int main(int argc, char** argv) {
  // A file that grows beyond a limit (ulimit -f) is an error of that write, not the sudden end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> args(argv + 1, argv + argc);
  return spillway::run_command_line(args);
}
