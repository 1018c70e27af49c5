#include "train/contribution.h"

#include <cstring>

#include "base/error.h"

namespace spillway::train {
namespace {

template <typename T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Takes values off the front of a text.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  std::string_view bytes(size_t count) {
    SPILLWAY_CHECK(count <= rest_.size(), "{} bytes of {}", count, rest_.size());
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return result;
  }
  template <typename T>
  T value() {
    T result;
    std::memcpy(&result, bytes(sizeof result).data(), sizeof result);
    return result;
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::string to_text(const Contribution& contribution) {
  std::string text;
  append(text, contribution.loss);
  append(text, contribution.tokens);
  for (const auto& [mean, weight] : contribution.metrics) {
    append(text, mean.value);
    append(text, weight);
    append(text, mean.is_share);
    append(text, mean.key.size());
    text.append(mean.key);
  }
  return text;
}

Contribution contribution_from(std::string_view text, std::set<std::string, std::less<>>& keys) {
  TextReader reader(text);
  Contribution result{.loss = reader.value<double>(), .tokens = reader.value<int64_t>()};
  while (!reader.is_at_end()) {
    MetricSums::Entry& entry = result.metrics.emplace_back();
    entry.mean.value = reader.value<double>();
    entry.weight = reader.value<double>();
    entry.mean.is_share = reader.value<bool>();
    const std::string_view key = reader.bytes(reader.value<size_t>());
    const auto known = keys.find(key);
    entry.mean.key = known != keys.end() ? *known : *keys.emplace(key).first;
  }
  return result;
}

}  // namespace spillway::train
