#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

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
  for (const MetricField& field : fields) {
    fmt::format_to(std::back_inserter(line_), "{}\"{}\": ", line_.size() == 0 ? "{" : ", ", field.name);
    if (const auto* integer = std::get_if<int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(line_), "{}", *integer);
    } else {
      append_number(std::get<double>(field.value), line_);
    }
  }
  fmt::format_to(std::back_inserter(line_), "}}\n");
  lines_.write({line_.data(), line_.size()});
}

}  // namespace spillway
