#include "report/load_progress.h"

#include <algorithm>

#include "base/clock.h"

namespace spillway {

class LoadProgress::CountingWriter final : public Writer {
 public:
  CountingWriter(LoadProgress& progress, ValueId id)
      : progress_(progress),
        writer_(progress.store_.writer(id)),
        elem_bytes_(size_of(progress.graph_.value(id).type.dtype)) {}

  void append(const void* elements, int64_t count) override {
    writer_->append(elements, count);
    progress_.count(count * elem_bytes_);
  }

 private:
  LoadProgress& progress_;
  std::unique_ptr<Writer> writer_;
  int64_t elem_bytes_;
};

LoadProgress::LoadProgress(ValueStore& store, const Graph& graph, const Program& program, Progress& progress,
                           std::span<const TierMemory> tiers)
    : store_(store), graph_(graph), progress_(progress), state_{.what = "weights", .tiers = tiers} {
  for (const Operand& home : program.homes) {
    if (graph.is_persistent(home.value) && home.place.tier != Tier::kFiles) state_.total_bytes += home.place.bytes;
  }
  progress_.load(state_, now_seconds());
}

void LoadProgress::write(ValueId id, const Visitor& fill) {
  store_.write(id, [&](const TensorView& piece, int64_t first_elem) {
    fill(piece, first_elem);
    count(piece.bytes());
  });
}

std::unique_ptr<ValueStore::Writer> LoadProgress::writer(ValueId id) {
  return std::make_unique<CountingWriter>(*this, id);
}

void LoadProgress::count(int64_t bytes) {
  // finish() shows the end.
  state_.bytes = std::min(state_.bytes + bytes, state_.total_bytes - 1);
  progress_.load(state_, now_seconds());
}

void LoadProgress::finish() {
  state_.bytes = state_.total_bytes;
  progress_.load(state_, now_seconds());
}

}  // namespace spillway
