#include "config/verdict.h"

#include <algorithm>

namespace spillway::config {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSupported:
      return "supported";
    case Verdict::kIgnored:
      return "ignored";
    case Verdict::kOff:
      return "off";
    case Verdict::kNotYet:
      return "not yet";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kWrong:
      return "wrong";
  }
  return "";
}

void Verdicts::add(std::string_view key, std::string_view name, Verdict verdict, std::string_view note) {
  keys_.push_back({std::string(key), std::string(name), verdict, std::string(note), ""});
}

void Verdicts::fail(std::string_view key, std::string_view name, Verdict verdict, std::string message) {
  ++problems_;
  const size_t place_end = message.find("] ");
  const std::string note = place_end == std::string::npos ? message : message.substr(place_end + 2);
  keys_.push_back({std::string(key), std::string(name), verdict, note, std::move(message)});
}

void Verdicts::ignore(std::string_view name, std::string_view why) {
  for (KeyVerdict& key : keys_) {
    if (key.name != name || key.verdict != Verdict::kSupported) continue;
    key.verdict = Verdict::kIgnored;
    key.note = why;
  }
}

void Verdicts::ignore_below(std::string_view parent, std::string_view why) {
  for (KeyVerdict& key : keys_) {
    const bool is_below =
        key.key.size() > parent.size() && key.key[parent.size()] == '.' && key.key.starts_with(parent);
    if (!is_below || key.verdict != Verdict::kSupported) continue;
    key.verdict = Verdict::kIgnored;
    key.note = why;
  }
}

void Verdicts::append(Verdicts others) {
  for (KeyVerdict& other : others.keys_) {
    const auto same =
        std::find_if(keys_.begin(), keys_.end(), [&](const KeyVerdict& key) { return key.key == other.key; });
    if (same == keys_.end()) {
      keys_.push_back(std::move(other));
    } else if (other.verdict > same->verdict) {
      *same = std::move(other);
    }
  }
}

bool Verdicts::has(Verdict verdict) const {
  return std::any_of(keys_.begin(), keys_.end(), [&](const KeyVerdict& key) { return key.verdict == verdict; });
}

std::string Verdicts::first_problem() const {
  for (const Verdict verdict : {Verdict::kWrong, Verdict::kRefused, Verdict::kNotYet}) {
    for (const KeyVerdict& key : keys_) {
      if (key.verdict == verdict) return key.message;
    }
  }
  return "";
}

std::vector<std::string> Verdicts::spelled(Verdict verdict) const {
  std::vector<std::string> names;
  for (const KeyVerdict& key : keys_) {
    if (key.verdict == verdict) names.push_back(key.key);
  }
  return names;
}

}  // namespace spillway::config
