#include "dist/testing/local_peers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/index.h"
#include "dist/fold_in_order.h"
#include "dist/rank_errors.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kLocalHost = "localhost";

// A collective as a rank begins it. `data` stays valid until all ranks have left the collective.
struct LocalCall {
  std::string_view kind;
  int64_t size = 0, detail = 0;
  const void* data = nullptr;
  int together = 1;  // of a fold

  [[nodiscard]] bool agrees(const LocalCall& other) const {
    return kind == other.kind && size == other.size && detail == other.detail && together == other.together;
  }
  [[nodiscard]] std::string text() const {
    const std::string groups = together > 1 ? fmt::format(" in groups of {}", together) : "";
    return fmt::format("{} of {} ({}){}", kind, size, detail, groups);
  }
};

struct LocalRank {
  LocalCall call;
  int64_t entered = 0, left = 0;  // collectives
  bool has_ended = false;
};

struct LocalJob {
  LocalOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex; a rank's call is also read without it while the rank is in that collective.
  std::vector<LocalRank> ranks;
  std::optional<int> aborted;
  std::optional<MachineError> failure;  // the first of any rank
};

class LocalPeers final : public Peers {
 public:
  LocalPeers(std::shared_ptr<LocalJob> job, int rank) : job_(std::move(job)), rank_(rank) {}
  ~LocalPeers() override {
    const std::lock_guard lock(job_->mutex);
    nth(job_->ranks, rank_).has_ended = true;
    job_->changed.notify_all();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(job_->ranks.size()); }
  [[nodiscard]] std::string_view host(int rank) const override {
    return job_->options.hosts.empty() ? kLocalHost : std::string_view(nth(job_->options.hosts, rank));
  }

  void fold(std::span<const float> whole, std::span<float> part, const Cut& cut, const FoldOrder& order) override {
    collective({"fold", cut.elems, order.contributors, whole.data(), order.together}, [&] {
      const std::span<float> sum = part.first(static_cast<size_t>(cut.count(rank_)));
      std::vector<const float*> contributions;
      for (int i = 0; i < order.contributors; ++i)
        contributions.push_back(static_cast<const float*>(nth(job_->ranks, i).call.data) + cut.begin(rank_));
      if (order.together == 1) return fold_in_order(sum, contributions);
      const std::span<const float* const> all(contributions);
      for (size_t first = 0; first < all.size(); first += static_cast<size_t>(order.together)) {
        std::vector<float> of_group(sum.size());
        fold_in_order(of_group, all.subspan(first, std::min<size_t>(order.together, all.size() - first)));
        const float* const one = of_group.data();
        fold_in_order(sum, std::span(&one, 1));
      }
    });
  }

  void gather(std::span<const std::byte> part, std::span<std::byte> whole, const Cut& cut,
              int64_t elem_bytes) override {
    collective({"gather", cut.elems, cut.part_elems * elem_bytes, part.data()}, [&] {
      for (int i = cut.group_of(rank_); i < cut.group_of(rank_) + cut.ranks; ++i) {
        if (cut.count(i) > 0)
          std::memcpy(whole.data() + cut.begin(i) * elem_bytes, nth(job_->ranks, i).call.data,
                      static_cast<size_t>(cut.count(i) * elem_bytes));
      }
    });
  }

  void all_to_all(std::span<const std::byte> from, std::span<std::byte> to, int ranks) override {
    collective({"all_to_all", std::ssize(from), ranks, from.data()}, [&] {
      const size_t piece = from.size() / static_cast<size_t>(ranks), mine = static_cast<size_t>(rank_ % ranks) * piece;
      const int group = rank_ - rank_ % ranks;
      for (int i = 0; i < ranks && piece > 0; ++i)
        std::memcpy(to.data() + static_cast<size_t>(i) * piece,
                    static_cast<const std::byte*>(nth(job_->ranks, group + i).call.data) + mine, piece);
    });
  }

  std::span<const std::string> exchange(std::string_view mine) override {
    collective({"exchange", 0, 0, &mine}, [&] {
      messages_.clear();
      for (const LocalRank& one : job_->ranks)
        messages_.emplace_back(*static_cast<const std::string_view*>(one.call.data));
    });
    return messages_;
  }

  [[noreturn]] void abort(int status) override {
    {
      const std::lock_guard lock(job_->mutex);
      if (!job_->aborted) job_->aborted = status;
      job_->changed.notify_all();
    }
    throw_aborted();
  }

 private:
  [[noreturn]] void throw_aborted() const {
    throw machine_error(fmt::format("rank {} on {}", rank_, kLocalHost),
                        "expected the job to go on, got its end with status {}; see what the others said",
                        *job_->aborted);
  }

  template <typename Work>
  void collective(const LocalCall& call, const Work& work) {
    for (const LocalFault& fault : job_->options.faults) {
      if (fault.rank == rank_ && fault.call == calls_) suffer(fault);
    }
    ++calls_;
    {
      std::unique_lock lock(job_->mutex);
      LocalRank& me = nth(job_->ranks, rank_);
      me.call = call;
      me.entered = calls_;
      job_->changed.notify_all();
      wait_for_all(lock, &LocalRank::entered);
      for (int i = 0; i < size(); ++i) {
        const LocalCall& other = nth(job_->ranks, i).call;
        if (!other.agrees(call))
          throw machine_error(fmt::format("rank {} on {}", i, kLocalHost),
                              "expected {} as on rank {}, got {}; this is a bug", call.text(), rank_, other.text());
      }
    }
    work();
    std::unique_lock lock(job_->mutex);
    nth(job_->ranks, rank_).left = calls_;
    job_->changed.notify_all();
    wait_for_all(lock, &LocalRank::left);
  }

  // Returns when all ranks have counted the present call.
  void wait_for_all(std::unique_lock<std::mutex>& lock, int64_t LocalRank::*count) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(job_->options.timeout_seconds);
    for (;;) {
      if (job_->aborted) throw_aborted();
      if (job_->failure) throw MachineError(*job_->failure);
      const auto is_missing = [&](const LocalRank& one) { return one.*count < calls_; };
      const auto missing = std::find_if(job_->ranks.begin(), job_->ranks.end(), is_missing);
      if (missing == job_->ranks.end()) return;
      const auto ended = std::find_if(job_->ranks.begin(), job_->ranks.end(),
                                      [&](const LocalRank& one) { return is_missing(one) && one.has_ended; });
      if (ended != job_->ranks.end()) fail(ended_rank(static_cast<int>(ended - job_->ranks.begin()), kLocalHost));
      if (Clock::now() >= deadline)
        fail(silent_rank(static_cast<int>(missing - job_->ranks.begin()), kLocalHost, job_->options.timeout_seconds));
      job_->changed.wait_until(lock, deadline);
    }
  }

  // The first failure is that of all ranks: what follows from it says nothing new.
  [[noreturn]] void fail(const MachineError& error) {
    job_->failure = error;
    job_->changed.notify_all();
    throw error;
  }

  void suffer(const LocalFault& fault) {
    if (fault.kind == LocalFault::Kind::kDead) throw EndedRank();
    if (fault.kind == LocalFault::Kind::kLate)
      return std::this_thread::sleep_for(std::chrono::duration<double>(fault.seconds));
    std::unique_lock lock(job_->mutex);
    job_->changed.wait(lock, [&] { return job_->failure || job_->aborted; });
    throw silent_rank(rank_, kLocalHost, job_->options.timeout_seconds);
  }

  std::shared_ptr<LocalJob> job_;
  int rank_;
  int64_t calls_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace

std::vector<std::unique_ptr<Peers>> local_peers(int ranks, LocalOptions options) {
  const auto job = std::make_shared<LocalJob>();
  job->options = std::move(options);
  job->ranks.resize(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<Peers>> peers;
  for (int i = 0; i < ranks; ++i) peers.push_back(std::make_unique<LocalPeers>(job, i));
  return peers;
}

std::vector<std::string> run_ranks(int ranks, const std::function<void(Peers&)>& body, LocalOptions options) {
  std::vector<std::unique_ptr<Peers>> peers = local_peers(ranks, std::move(options));
  std::vector<std::string> messages(peers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < peers.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        body(*peers[i]);
      } catch (const EndedRank&) {
        messages[i] = "ended";
      } catch (const std::exception& error) {
        messages[i] = error.what();
      }
      peers[i].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

}  // namespace spillway
