// The commands of `spillway`, and the conversion of their errors to exit statuses.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/interrupt.h"
#include "cli/help_page.h"

namespace spillway {

struct Command {
  std::string_view name;
  std::string_view summary;
  // Takes the arguments after the command's name; returns the exit status. Throws InputError and MachineError.
  int (*run)(std::span<const std::string> args);
};

// All commands, in the order of the help. A new one is a line in commands.cc.
[[nodiscard]] std::span<const Command> commands();

// Returns the page that `spillway COMMAND --help` shows.
[[nodiscard]] HelpPage help_of(const Command& command);

// Exit statuses that scripts may rely on.
constexpr int kDone = 0, kInputWrong = 2, kMachineFailed = 3, kInterrupted = kInterruptedStatus;

// The message when memory runs out.
constexpr std::string_view kNoMemory =
    "[memory] expected more free memory, got none; lower memory.device or end other programs";

// Runs `spillway ARGS...`. Prints an exception as one line on standard error and returns its exit status.
int run_command_line(std::span<const std::string> args);

}  // namespace spillway
