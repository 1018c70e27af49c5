// The process that starts a job of several ranks, and stays its parent.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// Runs `command` (mpirun, with a path, and its arguments) with an empty standard input, in a process group of its own,
// and returns its exit status, or 128 + the signal that ended it.
// - SIGINT, SIGTERM, SIGHUP (unless it is ignored, as under nohup) and SIGUSR1 go to it as SIGUSR1, which mpirun hands
//   on to all ranks: they stop behind one step. mpirun itself would kill them a second after a SIGINT.
// - A command that ends by the signal, before it could hand it on, ends with kInterruptedStatus.
// - If this process is killed, the command gets SIGTERM.
// - Behind a command that failed, the processes that it leaves are waited for, 10 s at most.
// - Where standard error is a terminal, ranks are told its columns (base/terminal.h).
// Throws MachineError if no process can be started. REQUIRES: no other thread takes these signals, and this
// process has no other children.
[[nodiscard]] int run_job(const std::vector<std::string>& command);

}  // namespace spillway
