// Decodes requests that arrive together in one batch: one thread owns the decoder, and lets requests join and leave
// between token positions.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "infer/generation/decoder.h"

namespace spillway::serve {

// A source of tokens; used only by the scheduler's thread.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Adds a sequence, as train::Decoder; returns nothing if there is no room now.
  [[nodiscard]] virtual std::optional<infer::SequenceId> join(const infer::Prompt& prompt,
                                                              const infer::SequenceRules& rules) = 0;
  // Returns the next tokens of some sequences; of none if there was a prompt to read. Throws if the machine fails.
  [[nodiscard]] virtual std::vector<infer::Chosen> step() = 0;
  virtual void leave(infer::SequenceId sequence) = 0;
  // The largest number of sequences at once. Thread-safe.
  [[nodiscard]] virtual int64_t max_sequences() const = 0;
};

// A model's decoder. A step reads at most one piece of the prompts, so that a long prompt delays the others little.
class ModelTokens : public TokenSource {
 public:
  explicit ModelTokens(infer::Decoder decoder) : decoder_(std::move(decoder)) {}

  [[nodiscard]] std::optional<infer::SequenceId> join(const infer::Prompt& prompt,
                                                      const infer::SequenceRules& rules) override {
    return decoder_.join(prompt, rules);
  }
  [[nodiscard]] std::vector<infer::Chosen> step() override {
    decoder_.read_prompts(1);
    return decoder_.decode();
  }
  void leave(infer::SequenceId sequence) override { decoder_.leave(sequence); }
  [[nodiscard]] int64_t max_sequences() const override { return decoder_.max_sequences(); }

 private:
  infer::Decoder decoder_;
};

enum class Ending {
  kDone,      // the last token came
  kUnwanted,  // the sink wanted no more
  kClosing,   // the scheduler was closed
  kFailed,    // the machine failed
};

// Receives the tokens of a sequence. Called by the scheduler's thread; must not block.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Takes a token; returns true if it wants more.
  [[nodiscard]] virtual bool take(const infer::Chosen& chosen) = 0;
  // Asked between tokens, and while the sequence waits for room.
  [[nodiscard]] virtual bool is_wanted() const = 0;
  // The last call.
  virtual void end(Ending ending) = 0;
};

struct Job {
  infer::Prompt prompt;
  infer::SequenceRules rules;
  std::shared_ptr<TokenSink> sink;
};

// Thread-safe.
class Scheduler {
 public:
  // At most `max_waiting` jobs wait for room, in addition to those that have room but have not joined yet. Borrows the
  // source.
  Scheduler(TokenSource& source, int64_t max_waiting);
  // Closes without patience.
  ~Scheduler();
  Scheduler(Scheduler&&) = delete;

  // Takes all of the jobs, which are decoded in their order, or none: none if they exceed the number that may wait, or
  // after close() or a failure. REQUIRES: each fits the source when that is empty.
  [[nodiscard]] bool submit(std::vector<Job> jobs);
  // Accepts no more jobs. Those that run or wait may end within `patience`. Returns when all have ended.
  void close(std::chrono::milliseconds patience);

  // The largest number of jobs that it takes at a time; a larger request is never taken.
  [[nodiscard]] int64_t capacity() const { return max_waiting_ + source_.max_sequences(); }

  struct Load {
    int64_t decoded = 0, waiting = 0;
  };
  [[nodiscard]] Load load() const;
  // Returns the exception of the source, or null.
  [[nodiscard]] std::exception_ptr failure() const;

 private:
  struct Running {
    infer::SequenceId name;
    std::shared_ptr<TokenSink> sink;
  };

  void run();
  void admit();
  void drop_unwanted();
  void hand_out(const std::vector<infer::Chosen>& chosen);
  void end_all(Ending ending);

  TokenSource& source_;
  const int64_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  bool closing_ = false, ended_ = false;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::exception_ptr failure_;
  int64_t decoded_ = 0;           // the size of running_, for others
  std::vector<Running> running_;  // the thread's own
  std::thread thread_;            // last: it begins when all else is there
};

}  // namespace spillway::serve
