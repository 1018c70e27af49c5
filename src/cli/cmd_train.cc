#include "cli/cmd_train.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/local_time.h"
#include "base/log.h"
#include "base/math.h"
#include "base/naming_key.h"
#include "base/shared_cpus.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/ranks/same_config.h"
#include "cli/ranks/start_ranks.h"
#include "cli/training_run.h"
#include "dist/launch.h"
#include "dist/open_peers.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "job/changes_that_fit.h"
#include "job/initial_state.h"
#include "job/measure_job.h"
#include "job/tiers.h"
#include "job/training_data.h"
#include "ops/collectives/device_peers.h"
#include "plan/host_sums.h"
#include "plan/print.h"
#include "report/progress.h"
#include "runtime/cpu_share.h"
#include "runtime/machine_cache.h"
#include "runtime/process_memory.h"
#include "saved/output.h"
#include "train/alike_ranks.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// The folder of a run, created and locked before the data are read, so that an unwritable folder is an error before
// training rather than after. It is removed again if the run leaves nothing in it.
class OutputFolder {
 public:
  OutputFolder(const fs::path& path, SharedOutput shared)
      : path_(path), is_new_(!fs::exists(path)), shared_(std::move(shared)) {
    naming_key("output_dir", [&] {
      create_folders(path);
      lock_.emplace(path);
      shared_.begin();
    });
  }
  ~OutputFolder() {
    const FinishFirst finish(EvenInterrupted{});
    try {
      if (!is_finished_) shared_.abandon();
    } catch (const std::exception&) {  // the record stays that names what was written
    }
    std::error_code not_empty;
    if (is_new_) fs::remove(path_, not_empty);
  }
  OutputFolder(OutputFolder&&) = delete;

  // Records the files that the run left, at its end.
  void finish() {
    const FinishFirst finish(EvenInterrupted{});
    shared_.finish();
    is_finished_ = true;
  }

 private:
  TidyFirst tidy_;
  fs::path path_;
  bool is_new_, is_finished_ = false;
  SharedOutput shared_;
  std::optional<FolderLock> lock_;
};

constexpr std::string_view kTrainExamples[] = {
    "spillway train config.yml", "spillway train config.yml --memory.device 6GiB --output_dir ./second-run",
    "spillway train config.yml --auto_resume_from_checkpoints true"};
constexpr CommandFlag kPrintMetricsFlag = {
    "--json-lines", "", "print the lines of metrics.jsonl, behind one with the folder and the steps of the run"};
constexpr CommandFlag kTrainFlags[] = {kRanksFlag, kPrintMetricsFlag, kIsaFlag};
constexpr ConfigCommand kTrainCommand = {"train", "Trains what the config says.", kTrainFlags, kTrainExamples};

// Throws on all ranks where some have a GPU and others do not: they would exchange different things.
void check_devices_alike(train::Ranks& ranks, const Device& device) {
  const std::span<const std::string> told = ranks.exchange([&] { return std::string(name_of(device.kind())); });
  const std::vector<std::string> kinds(told.begin(), told.end());
  ranks.agree([&] {
    for (int i = 1; i < ranks.size(); ++i) {
      if (nth(kinds, i) == kinds.front()) continue;
      throw input_error("device",
                        "expected devices of one kind, got {} for rank 0 and {} for {}; see to that host's GPU, or "
                        "write device: cpu",
                        kinds.front(), nth(kinds, i), ranks.name_of(i));
    }
  });
}

// Returns peers whose collectives take the memory of the ranks' GPUs; null where ranks share their device's memory with
// the host.
std::unique_ptr<Peers> join_devices(train::Ranks& ranks, const Device& device, std::string_view name, double timeout) {
  if (!ranks.are_several()) return nullptr;
  check_devices_alike(ranks, device);
  if (device.shares_host_memory()) return nullptr;
  const int gpu = gpu_of(name).value_or(0);
  const std::span<const std::string> texts = ranks.exchange([&] { return ops::gpu_identity(gpu); });
  const std::vector<std::string> identities(texts.begin(), texts.end());
  ranks.agree([&] { ops::check_gpus_differ(identities, *ranks.peers()); });
  return ops::join_gpus(*ranks.peers(), gpu, timeout);
}

// Returns rank 0's machine, so that all ranks plan alike. `of_rank_0` is only called there.
Machine shared_machine(train::Ranks& ranks, const std::function<Machine()>& of_rank_0) {
  if (!ranks.are_several()) return of_rank_0();
  const std::string text = ranks.of_first([&] { return json_text(to_json(of_rank_0())); });
  return machine_from_json(nlohmann::json::parse(text), "the machine of rank 0");
}

// Does what cmd_train() does as one of the ranks. Rank 0 alone speaks, and writes in output_dir.
class RankOfTraining {
 public:
  RankOfTraining(const ConfigArguments& arguments, train::Ranks& ranks)
      : arguments_(arguments), ranks_(ranks), progress_({.file = ranks.is_first() ? STDERR_FILENO : kNoFile}) {}

  int run() {
    std::optional<MutedLog> muted;
    if (!ranks_.is_first()) muted.emplace();
    load();
    prepare();
    std::vector<FrontierPoint> frontier;  // for the report, not for the plan that is printed now
    plan(frontier);
    std::optional<OutputFolder> output;
    ranks_.first([&] { output.emplace(loaded_.config.output.output_dir, std::move(*shared_)); });
    // A log whose reader has gone (`| tee` that Ctrl-C ended first) must not end the training.
    std::signal(SIGPIPE, SIG_IGN);
    planned_->context.frontier = std::move(frontier);
    train::RunStart start = choose_start();
    train::TrainingData data;
    ranks_.agree([&] { data = job_->kind->load(*job_, now_, [&](int64_t records) { say_read(records); }); });
    release_free_memory();
    planned_->context.process_bytes = train::predicted_rss_bytes(*job_, *planned_, machine_);
    if (data.stream) planned_->context.process_bytes += max_bytes(data.stream->options());
    const int status = run_training({.job = *job_,
                                     .planned = *planned_,
                                     .data = data,
                                     .config = loaded_,
                                     .machine = machine_,
                                     .device = *device_,
                                     .progress = progress_,
                                     .ranks = ranks_,
                                     .device_peers = device_peers_.get(),
                                     .prints_metrics = arguments_.has(kPrintMetricsFlag.name)},
                                    std::move(start));
    if (output) output->finish();
    return status;
  }

 private:
  // Rank 0 comes first, as it may fetch models and data sets.
  void load() {
    const auto read = [&] { loaded_ = load_config(arguments_, config::ConfigUse::kTrain); };
    ranks_.first(read);
    ranks_.agree([&] {
      if (!ranks_.is_first()) read();
    });
    if (const int64_t count = loaded_.config.ranks.count; count != ranks_.size())
      throw input_error("num_processes", "expected {} ranks, got one process; write --ranks {}", count, count);
    train::check_alike(ranks_, keys_alike(loaded_.keys));
    if (ranks_.are_several()) loaded_.config.ranks.place_on_hosts(ranks_.neighbours_on_a_host());
    ranks_.first([&] { shared_.emplace(train::training_output(loaded_.config)); });
    config::hide_secrets(loaded_);
    progress_.hint("planning");
  }

  void prepare() {
    std::string device;
    ranks_.agree([&] {
      const ops::HostPlace place = {ranks_.number_on_host(), ranks_.on_this_host()};
      device = place.ranks == 1 ? loaded_.config.device
                                : ops::device_of_rank(loaded_.config.device, place, ops::visible_gpus());
      device_ = open_device(device);
    });
    device_peers_ = join_devices(ranks_, *device_, device, loaded_.config.ranks.timeout_seconds);
    machine_ =
        shared_machine(ranks_, [&] { return train::machine_of(loaded_.config, *device_, ranks_.on_this_host()); });
    started_ = ranks_.of_first([&] { return train::first_start(loaded_.config.output); });
    now_ = time_from_text(started_);
    ranks_.agree([&] {
      job_.emplace(train::make_job(loaded_.config, machine_, {.now = now_}));
      for (const std::string& note : job_->notes) log_line(note);
      // Checks that everything can be opened, before anything that takes long.
      (void)train::open_weight_files(*job_);
      job_->kind->check_files(*job_);
      training_.emplace(train::build_training_graph(*job_->model, job_->graph));
    });
    machine_ = shared_machine(ranks_, [&] {
      train::measure_job(*job_, *training_, machine_, *device_, measuring_progress(progress_));
      return machine_;
    });
  }

  void say_read(int64_t records) {
    records == 0 ? progress_.say("reading the data") : progress_.count("rows read", records, now_seconds());
  }

  void plan(std::vector<FrontierPoint>& frontier) {
    ranks_.agree([&] {
      planned_.emplace(train::plan_job(*job_, machine_, std::move(*training_), &frontier));
      planned_->context.host_sums = host_sums(planned_->training.graph, planned_->plan, machine_, planned_->context);
    });
    ranks_.first([&] {
      if (!planned_->plan.fits) {
        measure_new_disks(machine_, loaded_.config.memory.disk_paths, *device_);
        progress_.hint("looking for what would fit");
        train::add_changes_that_fit(loaded_, *job_, machine_, *planned_);
      }
      progress_.clear();
      train::check_fits(*planned_);
    });
    ranks_.agree([&] { train::check_fits(*planned_); });  // budgets of other ranks may be smaller
    busy_.say();
    log_text(print_plan(planned_->training.graph, planned_->plan, planned_->context));
  }

  // The run has the same identity on all ranks.
  train::RunStart choose_start() {
    train::RunStart start;
    ranks_.agree([&] { start = train::choose_start(loaded_.config.output); });
    if (ranks_.are_several())
      start.run = train::run_from_json(
          nlohmann::json::parse(ranks_.of_first([&] { return json_text(train::to_json(start.run)); })));
    start.run.started = started_;
    return start;
  }

  static constexpr int kNoFile = -1;

  const ConfigArguments& arguments_;
  train::Ranks& ranks_;
  Progress progress_;
  BusyNotes busy_;
  config::LoadedConfig loaded_;
  std::optional<SharedOutput> shared_;  // rank 0's
  std::shared_ptr<Device> device_;
  std::unique_ptr<Peers> device_peers_;  // of GPUs
  Machine machine_;
  std::string started_;
  std::optional<std::tm> now_;
  std::optional<train::Job> job_;
  std::optional<train::TrainingGraph> training_;  // until it is planned
  std::optional<train::PlannedJob> planned_;
};

// The facts of a config that ranks are started by. Other keys may be wrong, which is said by those who read the
// config as a whole. The defaults stand for a file that is no config, or that can be read once.
struct SaidOfRanks {
  int count = 1;
  std::string device;
  double timeout_seconds = 0;
};

SaidOfRanks said_of_ranks(const ConfigArguments& arguments) {
  const auto said = [](const config::LoadedConfig& loaded) {
    return SaidOfRanks{narrow<int>(loaded.config.ranks.count), loaded.keys.device,
                       static_cast<double>(loaded.keys.ddp_timeout)};
  };
  if (arguments.path == "-") return said({});
  try {
    return said(config::check_config_file(arguments.path, arguments.overrides, config::ConfigUse::kTrain));
  } catch (const InputError&) {
    return said({});
  }
}

// Returns what `body` returns. An error is said by rank 0 if all ranks have it, else with the rank's name.
int speak_as_rank(train::Ranks& ranks, const std::function<int()>& body) {
  try {
    return body();
  } catch (const InputError& error) {
    if (!ranks.is_first() && ranks.is_common(error)) return kInputWrong;
    if (ranks.is_first()) throw;
    throw InputError(ranks.own_message(error.what()));
  } catch (const std::exception& error) {
    if (!ranks.is_first() && ranks.is_common(error)) return kMachineFailed;
    if (ranks.is_first()) throw;
    throw MachineError(ranks.own_message(error.what()));
  }
}

// Throws `fault`, if a rank has one, on all ranks.
int run_as_rank(ConfigArguments arguments, train::Ranks& ranks, const std::exception_ptr& fault) {
  arguments.ranks = ranks.are_several() ? ranks.size() : 0;
  ranks.agree([&] {
    if (fault) std::rethrow_exception(fault);
  });
  return RankOfTraining(arguments, ranks).run();
}

}  // namespace

int train_as_rank(const ConfigArguments& arguments, Peers* peers, const std::exception_ptr& fault) {
  train::Ranks ranks(peers);
  return speak_as_rank(ranks, [&] { return run_as_rank(arguments, ranks, fault); });
}

std::optional<ConfigArguments> training_arguments(std::span<const std::string> args) {
  return parse_config_arguments(kTrainCommand, args);
}

namespace {

// The facts that a process needs before it trains, or starts ranks that do.
struct TrainingCommand {
  ConfigArguments arguments;
  SaidOfRanks said = said_of_ranks({.path = "-"});
};

// Reads the command line into `command`. Returns false if it asks for help.
bool read_command(std::span<const std::string> args, const Launch& launch, TrainingCommand& command) {
  auto arguments = training_arguments(args);
  if (!arguments) return false;
  check_torch_launch(launch);
  command.said = said_of_ranks(*arguments);
  if (const int asked = ranks_asked_for(*arguments, launch, command.said.device); asked > 0) {
    arguments->overrides.push_back({"num_processes", fmt::format("{}", asked)});
    command.said.count = asked;
  }
  command.arguments = std::move(*arguments);
  return true;
}

// Returns true if `is_so` on all ranks. A collective.
bool are_all(bool is_so, train::Ranks& ranks) {
  const std::string mine = is_so ? "so" : "not so";
  const std::span<const std::string> all = ranks.exchange([&] { return mine; });
  return is_so && std::count(all.begin(), all.end(), mine) == ranks.size();
}

// Says what is wrong on a rank before it joins the others when it has joined them: by rank 0, as what all have in
// common, or with the rank's name.
int train_launched(std::span<const std::string> args, const Launch& launch) {
  TrainingCommand command;
  std::exception_ptr fault;
  bool is_help = false;
  try {
    is_help = !read_command(args, launch, command);
    share_cpus(launch.local_size);
    apply_isa_flag(command.arguments);
  } catch (const std::exception&) {
    fault = std::current_exception();
  }
  use_machine_cache_of_ranks();
  const std::unique_ptr<Peers> peers = open_peers(launch, {.timeout_seconds = command.said.timeout_seconds});
  if (is_help && !fault)
    fault = std::make_exception_ptr(input_error(
        "spillway train", "expected the command line of the other ranks, got one that asks for help; change it"));
  train::Ranks ranks(peers.get());
  return speak_as_rank(ranks,
                       [&] { return are_all(is_help, ranks) ? kDone : run_as_rank(command.arguments, ranks, fault); });
}

}  // namespace

int cmd_train(std::span<const std::string> args) {
  const Launch launch = read_mpi_launch();
  if (launch.is_one_of_several()) return train_launched(args, launch);
  TrainingCommand command;
  if (!read_command(args, launch, command)) return kDone;
  share_cpus(launch.local_size);
  if (command.said.count > 1) return start_ranks(command.said.count, args, command.arguments.path);
  apply_isa_flag(command.arguments);
  return train_as_rank(command.arguments, nullptr);
}

}  // namespace spillway
