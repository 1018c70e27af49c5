// A ValueStore that shows the progress of loading: it counts what is written through it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "plan/program.h"
#include "report/progress.h"
#include "runtime/value_store.h"

namespace spillway {

class LoadProgress final : public ValueStore {
 public:
  // Borrows its arguments. The total is every persistent value that is not in the user's files.
  LoadProgress(ValueStore& store, const Graph& graph, const Program& program, Progress& progress,
               std::span<const TierMemory> tiers);

  void read(ValueId id, const Visitor& use) override { store_.read(id, use); }
  void write(ValueId id, const Visitor& fill) override;
  [[nodiscard]] std::unique_ptr<Writer> writer(ValueId id) override;
  [[nodiscard]] bool is_in_files(ValueId id) const override { return store_.is_in_files(id); }
  // Shows the end. Values that have not been written did not need to be.
  void finish();

 private:
  class CountingWriter;

  void count(int64_t bytes);

  ValueStore& store_;
  const Graph& graph_;
  Progress& progress_;
  LoadState state_;
};

}  // namespace spillway
