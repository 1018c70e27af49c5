#include "cli/preprocess/shown_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/sizes.h"
#include "base/text.h"
#include "data/batch.h"

namespace spillway {
namespace {

enum class Kind { kRead, kSpecial, kTarget };

Kind kind_of(const ShownRow& row, size_t i, const text::Tokenizer& tokenizer) {
  if (row.is_target[i]) return Kind::kTarget;
  return tokenizer.is_special(row.ids[i]) ? Kind::kSpecial : Kind::kRead;
}

std::string marked(Kind kind, const std::string& text, bool colours) {
  if (!colours) return kind == Kind::kTarget ? "⟦" + text + "⟧" : text;
  switch (kind) {
    case Kind::kRead:
      return text;
    case Kind::kSpecial:
      return "\033[33m" + text + "\033[0m";
    case Kind::kTarget:
      break;
  }
  return "\033[32m" + text + "\033[0m";
}

}  // namespace

int64_t ShownRow::targets() const { return std::count(is_target.begin(), is_target.end(), true); }

std::vector<ShownRow> shown_rows(const data::RowTable& rows, int64_t count) {
  std::vector<ShownRow> shown;
  for (int64_t i = 0; i < std::min(count, rows.size()); ++i) {
    const data::Piece piece = rows.row(i);
    const std::span<const int32_t> ids = rows.ids(piece), labels = rows.labels(piece);
    ShownRow& row = shown.emplace_back();
    row.name = fmt::format("row {}", i + 1);
    row.ids.assign(ids.begin(), ids.end());
    for (size_t t = 0; t < labels.size(); ++t) row.is_target.push_back(t > 0 && labels[t] != data::kIgnoredLabel);
  }
  return shown;
}

std::vector<ShownRow> shown_rows(std::span<const data::PreferenceRow> rows, int64_t count) {
  std::vector<ShownRow> shown;
  for (size_t i = 0; i < rows.size() && static_cast<int64_t>(i) < count; ++i) {
    const data::PreferenceRow& preference = rows[i];
    const bool is_pair = preference.completions.size() == 2;
    for (size_t c = 0; c < preference.completions.size(); ++c) {
      const bool is_wanted = is_pair ? c == 0 : preference.label;
      ShownRow& row = shown.emplace_back();
      row.name = fmt::format("row {}, {}", i + 1, is_wanted ? "chosen" : "rejected");
      row.ids = preference.prompt_ids;
      row.ids.insert(row.ids.end(), preference.completions[c].begin(), preference.completions[c].end());
      for (size_t t = 0; t < row.ids.size(); ++t) row.is_target.push_back(t > 0 && t >= preference.prompt_ids.size());
    }
  }
  return shown;
}

std::string text_of_row(const ShownRow& row, const text::Tokenizer& tokenizer, bool colours) {
  std::string text = fmt::format("{}: {} tokens, {} targets\n", row.name, row.ids.size(), row.targets());
  // Runs of a kind are decoded together: a character may be several tokens.
  for (size_t begin = 0; begin < row.ids.size();) {
    const Kind kind = kind_of(row, begin, tokenizer);
    size_t end = begin + 1;
    while (end < row.ids.size() && kind_of(row, end, tokenizer) == kind) ++end;
    const std::string run = tokenizer.decode(std::span(row.ids).subspan(begin, end - begin), false);
    text += marked(kind, shown_text(run), colours);
    begin = end;
  }
  return text + "\n";
}

nlohmann::ordered_json json_of_row(const ShownRow& row, const text::Tokenizer& tokenizer) {
  std::vector<int> targets;
  for (const bool is_target : row.is_target) targets.push_back(is_target ? 1 : 0);
  return {{"name", row.name}, {"text", tokenizer.decode(row.ids, false)}, {"ids", row.ids}, {"is_target", targets}};
}

std::string text_of_lengths(const data::DatasetSummary& read) {
  constexpr int64_t kWidth = 40;
  const std::vector<data::LengthBin> bins = read.lengths.bins();
  int64_t most = 1;
  for (const data::LengthBin& bin : bins) most = std::max(most, bin.count);
  std::string text = fmt::format("{:>8}    {:<8} {:>9}\n", "tokens", "", "rows read");
  for (const data::LengthBin& bin : bins) {
    const int64_t length = (bin.count * kWidth + most - 1) / most;
    text += fmt::format("{:>8} to {:<8} {:>9}{}{}\n", bin.from, bin.to, bin.count, length > 0 ? "  " : "",
                        repeated(bin.is_over ? '-' : '#', length));
  }
  if (read.lengths.rows_over() == 0 && read.truncated == 0) return text;
  const int64_t lost = read.tokens_cut + read.tokens_too_long, all = read.tokens + lost;
  return text + fmt::format(
                    "{} of {} rows are longer than {} tokens; {} rows are truncated, {} dropped as too long: {} of {} "
                    "tokens are lost, {:.1f}%\n",
                    read.lengths.rows_over(), read.lengths.rows(), read.lengths.limit(), read.truncated,
                    read.dropped.too_long, lost, all,
                    all > 0 ? 100 * static_cast<double>(lost) / static_cast<double>(all) : 0);
}

}  // namespace spillway
