// Requests that arrive together are decoded together: one thread owns what decodes, and takes requests in and lets them
// go between token positions.
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

// What decodes; the scheduler's thread alone uses it.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // As train::Decoder; nothing where there is no room now.
  [[nodiscard]] virtual std::optional<infer::SequenceId> join(const infer::Prompt& prompt,
                                                              const infer::SequenceRules& rules) = 0;
  // The next tokens of some sequences; of none where there was a prompt to read. Throws where the machine fails.
  [[nodiscard]] virtual std::vector<infer::Chosen> step() = 0;
  virtual void leave(infer::SequenceId sequence) = 0;
  // How many sequences there may be at once. Any thread may ask.
  [[nodiscard]] virtual int64_t max_sequences() const = 0;
};

// A model's decoder. A step reads no more than one piece of the prompts, so that a long one delays the others little.
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

// Where the tokens of a sequence go. The scheduler's thread calls it; it must not wait for anybody.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Whether it wants more.
  [[nodiscard]] virtual bool take(const infer::Chosen& chosen) = 0;
  // Asked between tokens, and while it waits for room.
  [[nodiscard]] virtual bool is_wanted() const = 0;
  // The last call.
  virtual void end(Ending ending) = 0;
};

struct Job {
  infer::Prompt prompt;
  infer::SequenceRules rules;
  std::shared_ptr<TokenSink> sink;
};

// Any thread may call it.
class Scheduler {
 public:
  // At most `max_waiting` jobs wait for room, beside those that there is room for but that have not joined yet. The
  // source is borrowed.
  Scheduler(TokenSource& source, int64_t max_waiting);
  // As close() without patience.
  ~Scheduler();
  Scheduler(Scheduler&&) = delete;

  // Takes all of them, which are decoded in their order, or none: where they are more than may wait, and once it is
  // closed or has failed. REQUIRES: each fits the source when that is empty.
  [[nodiscard]] bool submit(std::vector<Job> jobs);
  // Takes nothing any more; who is decoded or waits gets so long to end. Returns when all have ended.
  void close(std::chrono::milliseconds patience);

  // The most jobs that it ever takes at a time; a request of more is never taken.
  [[nodiscard]] int64_t capacity() const { return max_waiting_ + source_.max_sequences(); }

  struct Load {
    int64_t decoded = 0, waiting = 0;
  };
  [[nodiscard]] Load load() const;
  // What the source has thrown, or nothing.
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
