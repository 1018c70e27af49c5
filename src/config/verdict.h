// The verdict on each key of a config: `plan --check-config` shows all of it, loading stops at what is not
// fine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::config {

enum class Verdict : uint8_t {
  kSupported,
  kIgnored,  // cannot matter here
  kOff,      // would not be done, and is not asked for
  kNotYet,   // asks for what is to come
  kRefused,  // asks for what will not come
  kWrong,    // an unknown key, a value of the wrong kind, two keys that say different things
};

// "supported", "ignored", "off", "not yet", "refused", "wrong".
[[nodiscard]] std::string_view name_of(Verdict verdict);

// Input that asks for what is to come, or for what never will.
class NotYetError : public InputError {
 public:
  using InputError::InputError;
};
class RefusedError : public InputError {
 public:
  using InputError::InputError;
};

struct KeyVerdict {
  std::string key;   // as spelled, with dots: `datasets.0.path`
  std::string name;  // the canonical key; of an unknown key, as spelled
  Verdict verdict = Verdict::kSupported;
  std::string note;     // why; may be empty for a supported key
  std::string message;  // the whole error; empty where the key is fine
};

// The verdicts of one config, in order. Not for several threads.
class Verdicts {
 public:
  void add(std::string_view key, std::string_view name, Verdict verdict, std::string_view note = "");

  // Runs `step`. An InputError that it throws becomes the verdict on the key; returns whether there was none.
  template <typename Step>
  bool attempt(std::string_view key, std::string_view name, Step&& step) {
    try {
      std::forward<Step>(step)();
      return true;
    } catch (const NotYetError& error) {
      fail(key, name, Verdict::kNotYet, error.what());
    } catch (const RefusedError& error) {
      fail(key, name, Verdict::kRefused, error.what());
    } catch (const InputError& error) {
      fail(key, name, Verdict::kWrong, error.what());
    }
    return false;
  }

  // A supported key that turns out to mean nothing beside the others.
  void ignore(std::string_view name, std::string_view why);
  // The same for all that stand below a key: `datasets` means `datasets.0.path` and so on.
  void ignore_below(std::string_view key, std::string_view why);

  // Puts the others' verdicts behind these; of two on one key the worse stays.
  void append(Verdicts others);

  [[nodiscard]] const std::vector<KeyVerdict>& keys() const { return keys_; }
  [[nodiscard]] bool has(Verdict verdict) const;

  // Returns true if so much is wrong that nobody reads on: a file of another kind has a hundred thousand unknown keys.
  [[nodiscard]] bool is_full() const { return problems_ >= kMaxProblems; }

  // The message that a user should see first: what is wrong, else what is refused, else what is to come; empty where
  // every key is fine.
  [[nodiscard]] std::string first_problem() const;

  // The keys with that verdict, as spelled.
  [[nodiscard]] std::vector<std::string> spelled(Verdict verdict) const;

 private:
  static constexpr int kMaxProblems = 100;

  void fail(std::string_view key, std::string_view name, Verdict verdict, std::string message);

  std::vector<KeyVerdict> keys_;
  int problems_ = 0;
};

}  // namespace spillway::config
