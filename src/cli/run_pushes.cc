#include "cli/run_pushes.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>

#include "base/interrupt.h"
#include "base/log.h"
#include "model/layout.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// The time for which rank 0 waits for a push before the ranks hear of each other again.
constexpr std::chrono::milliseconds kWaitForPush(500);

}  // namespace

void RunPushes::open() {
  goes_to_hub_ = !ranks_.of_first([&] { return open_hub(); }).empty();
}

std::string RunPushes::open_hub() {
  const config::OutputSettings& output = job_.config.output;
  if (!output.hub) return {};
  hub_.emplace(*output.hub, output.save_total_limit.value_or(0), weights_pattern());
  log_info("{} goes to {} on the hub", name_, hub::shown_name(hub_->repository()));
  return hub_->repository().id;
}

std::string RunPushes::weights_pattern() const {
  const Layout layout = layout_of(*job_.model);
  const fs::path stem =
      job_.graph.model.lora
          ? fs::path(adapter_stem(layout))
          : weights_folder(layout, {}, component_name(job_.config.model.base_model)) / weights_stem(layout);
  return stem.generic_string() + "*.safetensors*";
}

void RunPushes::push_checkpoint(const fs::path& folder, int64_t step) {
  if (!goes_to_hub_) return;
  ranks_.wait_for_first([&] { return hub_->is_ready(kWaitForPush); });
  ranks_.first([&] { hub_->push_checkpoint(folder, step); });
}

bool RunPushes::push_result(const fs::path& output) {
  if (!goes_to_hub_) return true;
  std::future<hub::Pushed> pushed;
  ranks_.first([&] { pushed = hub_->push_result(output); });
  ranks_.wait_for_first([&] { return pushed.wait_for(kWaitForPush) == std::future_status::ready; });
  return !ranks_.of_first([&] { return std::string(say_pushed(pushed, output) ? "pushed" : ""); }).empty();
}

bool RunPushes::say_pushed(std::future<hub::Pushed>& result, const fs::path& output) const {
  std::string reason = "interrupted";
  try {
    const hub::Pushed pushed = result.get();
    log_info("{} is at {} (commit {:.8})", name_, pushed.url, pushed.commit);
    return true;
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (const Interrupted&) {  // the other ranks learn it by the next exchange
  }
  log_line(fmt::format("{}; {} is whole in {}: `{}` sends it", reason, name_, output.string(), hub_->command(output)));
  return false;
}

}  // namespace spillway
