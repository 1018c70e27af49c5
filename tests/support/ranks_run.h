// Training as several ranks, threads of this process.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cmd_train.h"
#include "dist/testing/local_peers.h"
#include "tests/support/captured.h"
#include "tests/support/process.h"

namespace spillway::testing {

using Arguments = std::vector<std::string>;

// Runs a command of training as so many ranks, on these hosts by rank, and returns by rank what it failed of.
inline std::vector<std::string> run_over_ranks(int ranks, const Arguments& all,
                                               const std::vector<std::string>& hosts = {}) {
  const auto arguments = training_arguments(std::span(all).subspan(1));
  std::vector<std::string> errors;
  const auto train = [&](Peers* peers) {
    if (const int status = train_as_rank(*arguments, peers); status != 0) throw InputError(std::to_string(status));
  };
  const Captured run = capture([&] {
    if (ranks == 1) {
      train(nullptr);
    } else {
      errors = run_ranks(ranks, [&](Peers& peers) { train(&peers); }, {.hosts = hosts});
    }
    return 0;
  });
  return errors;
}

}  // namespace spillway::testing
