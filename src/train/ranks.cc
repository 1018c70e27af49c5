#include "train/ranks.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <string_view>

#include "base/clock.h"
#include "base/index.h"
#include "dist/rank_errors.h"
#include "train/rank_text.h"

namespace spillway::train {
namespace {

// A message is what became of a rank's body, whether a signal has come, and the body's text or the error's.
enum class Outcome : char { kDone = 'd', kInputWrong = 'i', kMachineFailed = 'm' };
constexpr size_t kHeader = 2;

std::string framed(Outcome outcome, bool is_interrupted, std::string_view text) {
  std::string message = {static_cast<char>(outcome), is_interrupted ? '1' : '0'};
  return message.append(text);
}

Outcome outcome_of(const std::string& message) { return static_cast<Outcome>(message.front()); }

std::string run_body(const std::function<std::string()>& body) {
  Outcome outcome = Outcome::kDone;
  std::string text;
  try {
    text = body();
  } catch (const InputError& error) {
    outcome = Outcome::kInputWrong;
    text = error.what();
  } catch (const std::bad_alloc&) {
    outcome = Outcome::kMachineFailed;
    text = "[memory] expected more free memory, got none; lower memory.device or end other programs";
  } catch (const std::exception& error) {
    outcome = Outcome::kMachineFailed;
    text = error.what();
  }
  return framed(outcome, interrupt_requested(), text);
}

}  // namespace

int Ranks::on_this_host() const {
  if (!are_several()) return 1;
  int count = 0;
  for (int other = 0; other < size(); ++other) count += peers_->host(other) == peers_->host(rank());
  return count;
}

int Ranks::number_on_host() const {
  int count = 0;
  for (int other = 0; other < rank(); ++other) count += peers_->host(other) == peers_->host(rank());
  return count;
}

int Ranks::neighbours_on_a_host() const {
  int together = size();
  for (int other = 1; other < size(); ++other)
    if (peers_->host(other) != peers_->host(other - 1)) together = std::gcd(together, other);
  return together;
}

std::string Ranks::name_of(int rank) const { return fmt::format("rank {} on {}", rank, peers_->host(rank)); }

std::string Ranks::own_message(std::string_view message) const {
  return are_several() ? message_of_rank(rank(), peers_->host(rank()), message) : std::string(message);
}

std::span<const std::string> Ranks::exchange(const std::function<std::string()>& body) {
  if (!are_several()) {
    texts_.assign(1, body());
    return texts_;
  }
  const std::string own = run_body(body);
  const double begin = now_seconds();
  const std::span<const std::string> messages = peers_->exchange(own);
  met_seconds_ += now_seconds() - begin;
  check_whole(messages, own);
  is_interrupted_ = std::any_of(messages.begin(), messages.end(), [](const std::string& one) { return one[1] == '1'; });
  texts_.clear();
  for (const std::string& message : messages) texts_.push_back(message.substr(kHeader));
  const auto failed = std::find_if(messages.begin(), messages.end(),
                                   [](const std::string& one) { return outcome_of(one) != Outcome::kDone; });
  if (failed == messages.end()) return texts_;
  const auto rank = static_cast<int>(failed - messages.begin());
  failure_ = message_of_rank(rank, peers_->host(rank), nth(texts_, rank));
  if (outcome_of(*failed) == Outcome::kInputWrong) throw InputError(failure_);
  throw MachineError(failure_);
}

// Throws if a rank sent no message of an exchange: its GPU has given up on the others, or it is no rank of training.
// This rank's own failure, if there is one, is then what there is to say.
void Ranks::check_whole(std::span<const std::string> messages, const std::string& own) const {
  const auto odd = std::find_if(messages.begin(), messages.end(),
                                [](const std::string& message) { return message.size() < kHeader; });
  if (odd == messages.end()) return;
  const std::string text = own.substr(kHeader);
  if (outcome_of(own) == Outcome::kInputWrong) throw InputError(text);
  if (outcome_of(own) == Outcome::kMachineFailed) throw MachineError(text);
  throw machine_error(
      name_of(static_cast<int>(odd - messages.begin())),
      "expected it to take part in an exchange, got nothing; see what it said: its GPU has given up, or "
      "it runs another command");
}

std::string Ranks::of_first(const std::function<std::string()>& body) {
  return exchange([&] { return is_first() ? body() : std::string(); }).front();
}

void Ranks::deal(int64_t count, int64_t together, const std::function<std::string(int64_t)>& own,
                 const std::function<void(int64_t, std::string_view)>& take) {
  for (int64_t first = 0; first < count; first += groups_of(together)) {
    const int64_t last = std::min<int64_t>(first + groups_of(together), count) - 1;
    const std::span<const std::string> texts = exchange([&] { return own(std::min(first + rank() / together, last)); });
    for (int64_t i = first; i <= last; ++i) take(i, nth(texts, (i - first) * together));
  }
}

void Ranks::take_turns(int64_t count, int64_t together, const std::function<std::string()>& own,
                       const std::function<void(std::string_view)>& take) {
  const std::span<const std::string> texts = exchange(own);
  std::vector<TextReader> readers(texts.begin(), texts.end());
  for (int64_t i = 0; i < count; ++i) take(nth(readers, i % groups_of(together) * together).take_string());
}

void Ranks::wait_for_first(const std::function<bool()>& is_done) {
  while (of_first([&] { return std::string(is_done() ? "done" : ""); }).empty()) {
  }
}

}  // namespace spillway::train
