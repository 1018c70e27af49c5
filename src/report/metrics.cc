#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace spillway {

void append_number(double value, fmt::memory_buffer& out) {
  if (!std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "null");
    return;
  }
  const size_t start = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  // A whole number stays one that is read as a float.
  if (std::string_view(out.data() + start, out.size() - start).find_first_of(".e") == std::string_view::npos) {
    fmt::format_to(std::back_inserter(out), ".0");
  }
}

void append_metrics_line(std::span<const MetricField> fields, fmt::memory_buffer& out) {
  const char* before = "{";
  for (const MetricField& field : fields) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\": ", std::exchange(before, ", "), field.name);
    if (const auto* integer = std::get_if<int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(out), "{}", *integer);
    } else {
      append_number(std::get<double>(field.value), out);
    }
  }
  fmt::format_to(std::back_inserter(out), "}}\n");
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path, int64_t resumed_step, bool is_evaluated)
    : lines_(path, resumed_step, [is_evaluated](const nlohmann::json& line) {
        if (line.contains("weights_step")) return false;
        const auto items = line.items();
        return is_evaluated || std::none_of(items.begin(), items.end(),
                                            [](const auto& item) { return item.key().starts_with("eval_"); });
      }) {
  line_.reserve(4096);
}

void MetricsWriter::write(std::span<const MetricField> fields) {
  line_.clear();
  append_metrics_line(fields, line_);
  lines_.write({line_.data(), line_.size()});
}

}  // namespace spillway
