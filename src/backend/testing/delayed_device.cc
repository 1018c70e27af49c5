#include "backend/testing/delayed_device.h"

#include <chrono>
#include <utility>

#include "backend/kernel.h"
#include "base/error.h"
#include "base/sizes.h"

namespace spillway::testing {
namespace {

using Clock = std::chrono::steady_clock;
using HealthPointer = std::shared_ptr<DelayedDevice::Health>;

// An event that counts how often it was recorded and how often that has happened.
class DelayedEvent final : public DeviceEvent {
 public:
  explicit DelayedEvent(HealthPointer health) : health_(std::move(health)) {}

  [[nodiscard]] bool has_happened() const override {
    health_->check();
    const std::lock_guard lock(mutex_);
    return happened_ == recorded_;
  }
  void await() const override {
    await(recordings());
    health_->check();
  }
  [[nodiscard]] double seconds_since(const DeviceEvent& other) const override {
    return std::chrono::duration<double>(time_ - dynamic_cast<const DelayedEvent&>(other).time_).count();
  }

  [[nodiscard]] uint64_t recordings() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }
  void record() {
    const std::lock_guard lock(mutex_);
    ++recorded_;
  }
  void happen() {
    const std::lock_guard lock(mutex_);
    ++happened_;
    time_ = Clock::now();
    changed_.notify_all();
  }
  void await(uint64_t recordings) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return happened_ >= recordings; });
  }

 private:
  HealthPointer health_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t recorded_ = 0, happened_ = 0;
  Clock::time_point time_;
};

// Copies a kernel's arguments, as a launch does.
std::function<void()> kept_call(KernelFunction kernel, const KernelArgs& args) {
  return [kernel, args, inputs = std::vector(args.inputs.begin(), args.inputs.end()),
          outputs = std::vector(args.outputs.begin(), args.outputs.end())] {
    kernel({.inputs = inputs,
            .outputs = outputs,
            .workspace = args.workspace,
            .attributes = args.attributes,
            .threads = args.threads});
  };
}

struct DelayedWork final : CapturedWork {
  std::vector<std::function<void()>> calls;
};

class DelayedQueue final : public DeviceQueue {
 public:
  DelayedQueue(uint64_t seed, uint64_t stream, uint32_t max_microseconds, HealthPointer health)
      : random_(seed, stream),
        max_microseconds_(max_microseconds),
        health_(std::move(health)),
        thread_([this] { live(); }) {}
  ~DelayedQueue() override {
    put([this] { stop_ = true; });
    thread_.join();
  }

  void run(KernelFunction kernel, const KernelArgs& args) override {
    if (captured_) {
      captured_->calls.push_back(kept_call(kernel, args));
    } else {
      put([kernel, args] { kernel(args); });
    }
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    put([=] { copy_memory(to, from, bytes); });
  }
  void record(DeviceEvent& event) override {
    auto& recorded = dynamic_cast<DelayedEvent&>(event);
    recorded.record();
    put([&recorded] { recorded.happen(); });
  }
  void wait(const DeviceEvent& event) override {
    const auto& awaited = dynamic_cast<const DelayedEvent&>(event);
    put([&awaited, count = awaited.recordings()] { awaited.await(count); });
  }
  std::unique_ptr<CapturedWork> capture(const std::function<void()>& fill) override {
    auto work = std::make_unique<DelayedWork>();
    captured_ = work.get();
    try {
      fill();
    } catch (...) {
      captured_ = nullptr;
      throw;
    }
    captured_ = nullptr;
    return work;
  }
  void replay(const CapturedWork& work) override {
    health_->count_replay();
    for (const std::function<void()>& call : dynamic_cast<const DelayedWork&>(work).calls) put([&call] { call(); });
  }
  void finish() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_.empty() && !busy_; });
    health_->check();
  }

 private:
  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

  void live() {
    while (!stop_) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !work_.empty(); });
        next = std::move(work_.front());
        work_.pop_front();
        busy_ = true;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(max_microseconds_ + 1)));
      health_->count();
      next();
      const std::lock_guard lock(mutex_);
      busy_ = false;
      changed_.notify_all();
    }
  }

  RandomStream random_;
  uint32_t max_microseconds_;
  HealthPointer health_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  DelayedWork* captured_ = nullptr;  // while capture() fills it
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace

void DelayedDevice::Health::check() const {
  if (left_ < 0) throw machine_error("device", "expected the device's work to succeed, got a failure on purpose");
}

int64_t DelayedDevice::replays() const { return health_->replays(); }

std::unique_ptr<DeviceQueue> DelayedDevice::make_queue() {
  return std::make_unique<DelayedQueue>(seed_, queues_++, max_microseconds_, health_);
}
std::unique_ptr<DeviceEvent> DelayedDevice::make_event() { return std::make_unique<DelayedEvent>(health_); }

}  // namespace spillway::testing
