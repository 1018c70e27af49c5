#include "cli/hub_pusher.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "cli/pushed_files.h"

namespace spillway {
namespace {

hub::PushOptions options_of(const config::HubSettings& settings) {
  hub::PushOptions options{.server = hub::server_of_environment(),
                           .is_private = settings.is_private,
                           .advice_on_weights = "name another hub_model_id or hub_revision, or remove them there"};
  if (!settings.token.empty()) options.server.token = settings.token;
  return options;
}

}  // namespace

HubPusher::HubPusher(const config::HubSettings& settings, int64_t checkpoints_kept, const std::string& weights)
    : settings_(settings),
      checkpoints_kept_(checkpoints_kept),
      options_(options_of(settings)),
      repository_(hub::prepare_push({.id = settings.id, .revision = settings.revision}, options_, weights)) {}

HubPusher::~HubPusher() {
  if (running_.valid()) running_.wait();
}

bool HubPusher::is_ready(std::chrono::milliseconds most) const {
  const bool is_removed = checkpoints_kept_ > 0 && saves_since_ + 1 >= checkpoints_kept_;
  if (!running_.valid() || (!settings_.waits && !is_removed)) return true;
  return running_.wait_for(most) == std::future_status::ready;
}

void HubPusher::push_checkpoint(const std::filesystem::path& checkpoint, int64_t step) {
  if (settings_.strategy == config::HubStrategy::kEnd) return;
  ++saves_since_;
  if (running_.valid() && running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  saves_since_ = 0;
  running_ = std::async(std::launch::async, [this, checkpoint, step] {
    try {
      hub::PushOptions options = options_;
      options.message = fmt::format("Training in progress, step {}", step);
      (void)hub::push(repository_, files_to_push(checkpoint, {}), options);
      if (settings_.strategy == config::HubStrategy::kEverySave) return;
      options.message += ", checkpoint";
      const bool is_last_alone = settings_.strategy == config::HubStrategy::kCheckpoint;
      const std::string name = is_last_alone ? "last-checkpoint" : checkpoint.filename().string();
      (void)hub::push(repository_, checkpoint_to_push(checkpoint, name), options);
    } catch (const std::exception& error) {
      log_warning("{}; step {} is not on the hub, and the run goes on", error.what(), step);
    } catch (const Interrupted&) {  // the run says so
    }
  });
}

std::future<hub::Pushed> HubPusher::push_result(const std::filesystem::path& output) {
  return std::async(std::launch::async, [this, output] {
    if (running_.valid()) running_.wait();
    hub::PushOptions options = options_;
    options.message = "End of training";
    return hub::push(repository_, files_to_push(output, {}), options);
  });
}

std::string HubPusher::command(const std::filesystem::path& output) const {
  return fmt::format("spillway push {} {}{}{}", output.string(), repository_.id,
                     repository_.revision.empty() ? "" : " --revision " + repository_.revision,
                     settings_.is_private ? " --private" : "");
}

}  // namespace spillway
