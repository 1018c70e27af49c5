// The rates at which the ranks of a job exchange, for `spillway doctor` under a launcher.
#pragma once

#include "dist/peers.h"

namespace spillway {

// The bytes that a rank sends to others in a second while all of them exchange.
struct ExchangeRates {
  int ranks = 1;
  double fold_bytes_per_second = 0;    // sums of gradients: each rank's contribution goes to all others
  double gather_bytes_per_second = 0;  // weights: each rank's part does

  // Returns the rate that plans count with: the lower one.
  [[nodiscard]] double slower() const;
};

// Measures with values of 16 MiB in host memory, the median of several runs, each as slow as its slowest rank. A
// collective.
[[nodiscard]] ExchangeRates measure_exchange(Peers& peers);

}  // namespace spillway
