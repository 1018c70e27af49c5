#include "serve/scheduler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>

#include "tests/support/patience.h"

using namespace spillway;
using namespace spillway::serve;
using namespace std::chrono_literals;

namespace {

// Room for so many sequences; the n-th token of a sequence is n. A step waits as long as it is held.
class FakeSource : public TokenSource {
 public:
  explicit FakeSource(size_t room) : room_(room) {}

  std::optional<infer::SequenceId> join(const infer::Prompt& prompt, const infer::SequenceRules&) override {
    if (running_.size() == room_) return std::nullopt;
    running_.push_back({next_, 0, prompt.sampling.max_new_tokens});
    return next_++;
  }
  std::vector<infer::Chosen> step() override {
    while (held) std::this_thread::sleep_for(1ms);
    if (fails) throw std::runtime_error("no tokens");
    max_at_once = std::max<int64_t>(max_at_once, static_cast<int64_t>(running_.size()));
    std::vector<infer::Chosen> chosen;
    for (Running& one : running_) {
      ++one.tokens;
      chosen.push_back({.sequence = one.name, .id = one.tokens, .is_last = one.tokens == one.most});
    }
    return chosen;
  }
  void leave(infer::SequenceId name) override {
    const auto gone = std::erase_if(running_, [&](const Running& one) { return one.name == name; });
    if (gone == 1) ++left;
  }
  int64_t max_sequences() const override { return static_cast<int64_t>(room_); }

  std::atomic<bool> held = false, fails = false;
  std::atomic<int64_t> max_at_once = 0, left = 0;

 private:
  struct Running {
    infer::SequenceId name;
    int32_t tokens;
    int64_t most;
  };
  size_t room_;
  std::vector<Running> running_;
  infer::SequenceId next_ = 0;
};

class FakeSink : public TokenSink {
 public:
  explicit FakeSink(int32_t enough = INT32_MAX) : enough_(enough) {}

  bool take(const infer::Chosen& chosen) override {
    tokens = chosen.id;
    return chosen.id < enough_;
  }
  bool is_wanted() const override { return wanted; }
  void end(Ending ending) override {
    how = ending;
    ended = true;
  }
  void await_end() const {
    REQUIRE(spillway::testing::comes_true([&] { return ended.load(); }));
  }

  std::atomic<int32_t> tokens = 0;
  std::atomic<bool> wanted = true, ended = false;
  std::atomic<Ending> how = Ending::kFailed;

 private:
  int32_t enough_;
};

Job job(std::shared_ptr<FakeSink> sink, int64_t tokens) {
  return {{{1}, {.max_new_tokens = tokens}}, {}, std::move(sink)};
}

void await_decoding(const Scheduler& scheduler) {
  while (scheduler.load().decoded == 0) std::this_thread::sleep_for(1ms);
}

std::vector<std::shared_ptr<FakeSink>> sinks(size_t count) {
  std::vector<std::shared_ptr<FakeSink>> result;
  for (size_t i = 0; i < count; ++i) result.push_back(std::make_shared<FakeSink>());
  return result;
}

}  // namespace

TEST_CASE("jobs are decoded together as far as there is room, and each gets all of its tokens") {
  FakeSource source(3);
  source.held = true;
  Scheduler scheduler(source, 100);
  const auto all = sinks(7);
  for (size_t i = 0; i < all.size(); ++i) REQUIRE(scheduler.submit({job(all[i], static_cast<int64_t>(i) + 1)}));
  source.held = false;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i]->await_end();
    CHECK(all[i]->tokens == static_cast<int32_t>(i) + 1);
    CHECK(all[i]->how == Ending::kDone);
  }
  CHECK(source.max_at_once == 3);
  CHECK(source.left == 7);
}

TEST_CASE("more jobs than may wait are refused, all of a request or none") {
  FakeSource source(1);
  source.held = true;
  Scheduler scheduler(source, 3);
  const auto all = sinks(6);
  REQUIRE(scheduler.submit({job(all[0], 5)}));
  await_decoding(scheduler);
  CHECK(scheduler.submit({job(all[1], 1), job(all[2], 1)}));
  CHECK(!scheduler.submit({job(all[3], 1), job(all[4], 1)}));
  CHECK(scheduler.submit({job(all[5], 1)}));
  CHECK(scheduler.load().waiting == 3);
  source.held = false;
  for (const size_t i : {0, 1, 2, 5}) all[i]->await_end();
  CHECK(!all[3]->ended);
}

TEST_CASE("jobs that come while a token is made are not refused where there is room for them") {
  FakeSource source(3);
  source.held = true;
  Scheduler scheduler(source, 1);
  const auto all = sinks(5);
  REQUIRE(scheduler.submit({job(all[0], 5)}));
  await_decoding(scheduler);
  for (const size_t i : {1, 2, 3}) CHECK(scheduler.submit({job(all[i], 1)}));
  CHECK(!scheduler.submit({job(all[4], 1)}));
  source.held = false;
  for (const size_t i : {0, 1, 2, 3}) all[i]->await_end();
}

TEST_CASE("who wants no more makes room at once, before or while it is decoded") {
  FakeSource source(1);
  Scheduler scheduler(source, 10);
  const auto all = sinks(3);
  const auto enough = std::make_shared<FakeSink>(4);
  REQUIRE(scheduler.submit({job(all[0], INT64_MAX)}));
  REQUIRE(scheduler.submit({job(all[1], 3)}));
  REQUIRE(scheduler.submit({job(enough, 100)}));
  REQUIRE(scheduler.submit({job(all[2], 3)}));
  while (all[0]->tokens < 10) std::this_thread::sleep_for(1ms);
  all[1]->wanted = false;
  all[1]->await_end();
  CHECK(all[1]->tokens == 0);
  all[0]->wanted = false;
  for (const auto& sink : all) sink->await_end();
  CHECK(all[0]->how == Ending::kUnwanted);
  CHECK(enough->how == Ending::kUnwanted);
  CHECK(enough->tokens == 4);
  CHECK(all[2]->how == Ending::kDone);
  CHECK(source.left == 3);
}

TEST_CASE("closing lets what ends in time end, cuts the rest, and takes nothing new") {
  FakeSource source(2);
  Scheduler scheduler(source, 10);
  const auto all = sinks(3);
  REQUIRE(scheduler.submit({job(all[0], INT64_MAX), job(all[1], INT64_MAX)}));
  source.held = true;
  REQUIRE(scheduler.submit({job(all[2], 1)}));
  std::thread closer([&] { scheduler.close(200ms); });
  while (scheduler.submit({})) std::this_thread::sleep_for(1ms);
  all[1]->wanted = false;  // so that the third has room
  source.held = false;
  closer.join();
  CHECK(all[0]->how == Ending::kClosing);
  CHECK(all[1]->how == Ending::kUnwanted);
  CHECK(all[2]->how == Ending::kDone);
}

TEST_CASE("a machine that fails ends all jobs, and says why") {
  FakeSource source(1);
  source.fails = true;
  Scheduler scheduler(source, 10);
  const auto all = sinks(2);
  REQUIRE(scheduler.submit({job(all[0], 3), job(all[1], 3)}));
  for (const auto& sink : all) {
    sink->await_end();
    CHECK(sink->how == Ending::kFailed);
  }
  CHECK(!scheduler.submit({job(all[0], 1)}));
  REQUIRE(scheduler.failure());
  CHECK_THROWS_WITH(std::rethrow_exception(scheduler.failure()), "no tokens");
}
