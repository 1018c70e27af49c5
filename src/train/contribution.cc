#include "train/contribution.h"

#include "train/rank_text.h"

namespace spillway::train {

std::string to_text(const Contribution& contribution) {
  TextWriter text;
  text.add(contribution.loss);
  text.add(contribution.tokens);
  text.add_list(contribution.observed);
  for (const auto& [mean, weight] : contribution.metrics) {
    text.add(mean.value);
    text.add(weight);
    text.add(mean.is_share);
    text.add_list(mean.key);
  }
  return text.take();
}

Contribution contribution_from(std::string_view text, std::set<std::string, std::less<>>& keys) {
  TextReader reader(text);
  Contribution result{.loss = reader.take<double>(), .tokens = reader.take<int64_t>()};
  result.observed = reader.take_list<double>();
  while (!reader.is_at_end()) {
    MetricSums::Entry& entry = result.metrics.emplace_back();
    entry.mean.value = reader.take<double>();
    entry.weight = reader.take<double>();
    entry.mean.is_share = reader.take<bool>();
    const std::string_view key = reader.take_string();
    const auto known = keys.find(key);
    entry.mean.key = known != keys.end() ? *known : *keys.emplace(key).first;
  }
  return result;
}

}  // namespace spillway::train
