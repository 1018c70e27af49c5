#include "report/load_progress.h"

#include <algorithm>

#include "base/clock.h"

namespace spillway {

LoadProgress::LoadProgress(ValueStore& store, const Graph& graph, const Program& program, Progress& progress,
                           std::span<const TierMemory> tiers)
    : store_(store), progress_(progress), state_{.what = "weights", .tiers = tiers} {
  for (const Operand& home : program.homes) {
    if (graph.is_persistent(home.value) && home.place.tier != Tier::kFiles) state_.total_bytes += home.place.bytes;
  }
  progress_.load(state_, now_seconds());
}

void LoadProgress::write(ValueId id, const Visitor& fill) {
  store_.write(id, [&](const TensorView& piece, int64_t first_elem) {
    fill(piece, first_elem);
    // The end is finish()'s to show.
    state_.bytes = std::min(state_.bytes + piece.bytes(), state_.total_bytes - 1);
    progress_.load(state_, now_seconds());
  });
}

void LoadProgress::finish() {
  state_.bytes = state_.total_bytes;
  progress_.load(state_, now_seconds());
}

}  // namespace spillway
