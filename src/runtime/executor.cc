#include "runtime/executor.h"

#include <array>
#include <utility>

#include "base/index.h"
#include "runtime/tier_store.h"

namespace spillway {

Executor::Executor(const Graph& graph, const Program& program, Memory& memory, const ExecutorOptions& options)
    : loaded_(graph, program, memory,
              {.host = options.peers, .device = options.device_peers ? options.device_peers : options.peers}),
      profile_(loaded_, options.traced_micro_steps),
      mirror_(loaded_.device().shares_host_memory() ? nullptr : std::make_unique<Mirror>(loaded_)),
      values_(std::make_unique<TierStore>(loaded_)),
      lanes_(options.lanes(loaded_, profile_)) {}

Executor::Executor(const Graph& graph, const Program& program, std::unique_ptr<Memory> own,
                   const ExecutorOptions& options)
    : Executor(graph, program, *own, options) {
  own_memory_ = std::move(own);
}

Executor::Executor(const Graph& graph, const Program& program, ThreadPool& pool, const ExecutorOptions& options)
    : Executor(graph, program, std::make_unique<Memory>(std::array{&program}, pool, options.tiers), options) {}

TensorView Executor::home(ValueId id) const {
  return mirror_ ? mirror_->home(id) : loaded_.view({id, loaded_.home_of(id)});
}

TensorView Executor::result(size_t index) const {
  return mirror_ ? mirror_->result(index) : loaded_.view(loaded_.program().results[index]);
}

void Executor::run(SectionId section) {
  if (error_) std::rethrow_exception(error_);
  try {
    if (mirror_) mirror_->send_batch(section);
    lanes_->run(nth(loaded_.program().sections, section));
    if (mirror_) mirror_->fetch_results(section);
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
}

}  // namespace spillway
