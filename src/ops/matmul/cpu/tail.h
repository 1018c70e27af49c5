// The panels of a product's tail, which is so thin that all of them are packed before the first task.
#pragma once

#include <cstdint>

#include "base/parallel.h"
#include "ops/matmul/cpu/blocks.h"

namespace spillway::cpu {

class TailPanels {
 public:
  // `panels` has room for tail_panel_words() of the product.
  TailPanels(const MatmulJob& job, float* panels)
      : job_(job), left_(panels), right_(panels + job.row_panels * left_words()) {}

  // Packs all panels, on all threads.
  void pack(ThreadPool& pool) const;

  // Returns true if tiles add the tail themselves, before their sums go to memory.
  [[nodiscard]] bool joins() const { return job_.tail.units > 0 && job_.tiles.joins_tails; }
  [[nodiscard]] TileTail at(int64_t row_panel, int64_t column_panel) const {
    return {.left = left_ + row_panel * left_words(),
            .right = right_ + column_panel * right_words(),
            .height = job_.height,
            .units = job_.tail.units};
  }

  // Adds the tail's sums to the tile of a row panel and a column panel, `stride` apart by row. Does nothing without a
  // tail. REQUIRES: a TileRun of this thread.
  void add_to(float* tile, int64_t stride, int64_t row_panel, int64_t column_panel) const;

 private:
  [[nodiscard]] int64_t left_words() const { return job_.height * job_.tiles.left_units(job_.tail.units); }
  [[nodiscard]] int64_t right_words() const { return job_.columns * job_.tail.units; }
  void pack_left(int64_t panel) const;
  void pack_right(int64_t panel) const;

  const MatmulJob& job_;
  float *left_, *right_;
};

}  // namespace spillway::cpu
