// A ValueStore that shows how far loading has come: it counts what is written through it.
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
  // All are borrowed. What there is to load: every persistent value that is not in the user's files.
  LoadProgress(ValueStore& store, const Graph& graph, const Program& program, Progress& progress,
               std::span<const TierMemory> tiers);

  void read(ValueId id, const Visitor& use) override { store_.read(id, use); }
  void write(ValueId id, const Visitor& fill) override;
  [[nodiscard]] std::unique_ptr<Writer> writer(ValueId id) override;
  [[nodiscard]] bool is_in_files(ValueId id) const override { return store_.is_in_files(id); }
  // What has not been written needed no writing.
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
