#include "runtime/executor.h"

#include "runtime/tier_store.h"

namespace spillway {

Executor::Executor(const Graph& graph, const Program& program, ThreadPool& pool, const ExecutorOptions& options)
    : loaded_(graph, program, pool, options.tiers),
      profile_(loaded_, options.traced_micro_steps),
      values_(std::make_unique<TierStore>(loaded_)),
      lanes_(options.lanes(loaded_, profile_)) {}

void Executor::run(Phase phase) {
  if (error_) std::rethrow_exception(error_);
  try {
    for (const Section& section : loaded_.program().sections) {
      if (section.phase == phase) lanes_->run(section);
    }
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
}

}  // namespace spillway
