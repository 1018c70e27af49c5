// The commands of `spillway`, and the way from a command line to an exit status.
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

// What `spillway COMMAND --help` shows.
[[nodiscard]] HelpPage help_of(const Command& command);

// Exit statuses: what a script may rely on.
constexpr int kDone = 0, kInputWrong = 2, kMachineFailed = 3, kInterrupted = kInterruptedStatus;

// What is said where memory ran out.
constexpr std::string_view kNoMemory =
    "[memory] expected more free memory, got none; lower memory.device or end other programs";

// Runs `spillway ARGS...` and turns what it throws into one line on standard error and an exit status.
int run_command_line(std::span<const std::string> args);

}  // namespace spillway
