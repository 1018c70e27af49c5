// Packs rows into lines with a limit of tokens, by one of the strategies.
//
// Working memory is about 40 bytes per row of the scope, and 16 bytes per sequence for the result; tokens stay where
// they are. Single-threaded and deterministic.
#pragma once

#include <cstdint>
#include <functional>

#include "data/dataset_options.h"
#include "data/packing/lines.h"

namespace spillway::data {

struct PackOptions {
  PackingStrategy strategy = PackingStrategy::kBfd;
  int64_t capacity = 512;  // tokens of a line
  int64_t scope_rows = 0;  // TRL's strategies pack so many rows at a time, the datasets library's map batch; 0: all
  int64_t line_rows = 0;   // kFirstFit puts at most so many rows into a line; 0: any number
  std::function<void(int64_t rows, int64_t of)> progress{};  // where there is one: told now and then
};

// Returns the lines. TRL's strategies give those of trl.pack_dataset, in its order; rows without tokens are left out,
// and `bfd` cuts longer rows. REQUIRES: for kFirstFit and kSequential, no row is longer than the capacity.
[[nodiscard]] Lines pack(const RowTable& rows, const PackOptions& options);

}  // namespace spillway::data
