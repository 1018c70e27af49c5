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

// Runs a command of training on each rank, with arguments of its own, on these hosts by rank, and returns by rank what
// it failed of.
inline std::vector<std::string> run_ranks_of(const std::vector<Arguments>& by_rank,
                                             const std::vector<std::string>& hosts = {}) {
  const auto train = [&](int rank, Peers* peers) {
    const Arguments& own = by_rank[static_cast<size_t>(rank)];
    const auto arguments = training_arguments(std::span(own).subspan(1));
    if (const int status = train_as_rank(*arguments, peers); status != 0) throw InputError(std::to_string(status));
  };
  std::vector<std::string> errors;
  (void)capture([&] {
    if (by_rank.size() == 1) {
      train(0, nullptr);
    } else {
      errors = run_ranks(static_cast<int>(by_rank.size()), [&](Peers& peers) { train(peers.rank(), &peers); },
                         {.hosts = hosts});
    }
    return 0;
  });
  return errors;
}

// The same with the same arguments on all ranks.
inline std::vector<std::string> run_over_ranks(int ranks, const Arguments& all,
                                               const std::vector<std::string>& hosts = {}) {
  return run_ranks_of(std::vector<Arguments>(static_cast<size_t>(ranks), all), hosts);
}

}  // namespace spillway::testing
