#include "serve/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace spillway::serve {

using Clock = std::chrono::steady_clock;

Scheduler::Scheduler(TokenSource& source, int64_t max_waiting)
    : source_(source), max_waiting_(max_waiting), thread_([this] { run(); }) {}

Scheduler::~Scheduler() {
  close(std::chrono::milliseconds(0));
  thread_.join();
}

bool Scheduler::submit(std::vector<Job> jobs) {
  {
    const std::lock_guard lock(mutex_);
    const int64_t room = source_.max_sequences() - decoded_;  // what came since the last token has not joined yet
    if (closing_ || failure_ || std::ssize(waiting_) + std::ssize(jobs) > max_waiting_ + room) return false;
    waiting_.insert(waiting_.end(), std::move_iterator(jobs.begin()), std::move_iterator(jobs.end()));
  }
  changed_.notify_all();
  return true;
}

void Scheduler::close(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  closing_ = true;
  const Clock::time_point until = Clock::now() + patience;
  deadline_ = deadline_ ? std::min(*deadline_, until) : until;
  changed_.notify_all();
  changed_.wait(lock, [&] { return ended_; });
}

Scheduler::Load Scheduler::load() const {
  const std::lock_guard lock(mutex_);
  return {decoded_, std::ssize(waiting_)};
}

std::exception_ptr Scheduler::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Scheduler::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      decoded_ = std::ssize(running_);
      changed_.wait(lock, [&] { return closing_ || failure_ || !waiting_.empty() || !running_.empty(); });
      if (failure_ || (closing_ && ((running_.empty() && waiting_.empty()) || Clock::now() >= *deadline_))) break;
    }
    try {
      drop_unwanted();
      admit();
      if (!running_.empty()) hand_out(source_.step());
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
  }
  end_all(failure() ? Ending::kFailed : Ending::kClosing);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Admits jobs in the order of arrival, so that none waits forever.
void Scheduler::admit() {
  for (;;) {
    Job job;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      job = waiting_.front();
    }
    const std::optional<infer::SequenceId> name = source_.join(job.prompt, job.rules);
    SPILLWAY_CHECK(name || !running_.empty(), "a request of {} tokens does not fit", job.prompt.sequence_tokens());
    if (!name) return;
    running_.push_back({*name, std::move(job.sink)});
    const std::lock_guard lock(mutex_);
    waiting_.pop_front();
    decoded_ = std::ssize(running_);
  }
}

void Scheduler::drop_unwanted() {
  std::erase_if(running_, [&](const Running& one) {
    if (one.sink->is_wanted()) return false;
    source_.leave(one.name);
    one.sink->end(Ending::kUnwanted);
    return true;
  });
  std::vector<std::shared_ptr<TokenSink>> gone;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Job& job) {
      if (job.sink->is_wanted()) return false;
      gone.push_back(job.sink);
      return true;
    });
  }
  for (const auto& sink : gone) sink->end(Ending::kUnwanted);
}

void Scheduler::hand_out(const std::vector<infer::Chosen>& chosen) {
  for (const infer::Chosen& token : chosen) {
    const auto one =
        std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.name == token.sequence; });
    SPILLWAY_CHECK(one != running_.end(), "no sequence {}", token.sequence);
    const bool wants_more = one->sink->take(token);
    if (wants_more && !token.is_last) continue;
    source_.leave(one->name);
    one->sink->end(token.is_last ? Ending::kDone : Ending::kUnwanted);
    running_.erase(one);
  }
}

void Scheduler::end_all(Ending ending) {
  for (const Running& one : running_) one.sink->end(ending);
  running_.clear();
  std::deque<Job> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
    decoded_ = 0;
  }
  for (const Job& job : waiting) job.sink->end(ending);
}

}  // namespace spillway::serve
