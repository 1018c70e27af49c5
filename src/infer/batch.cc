#include "infer/batch.h"

#include <algorithm>

#include "base/error.h"

namespace spillway::infer {

void copy_column(const Value& value, std::span<const std::byte> content, const TensorView& to) {
  SPILLWAY_CHECK(!content.empty() && std::ssize(content) <= to.bytes(), "{} bytes for {} of {}", content.size(),
                 value.name, to.bytes());
  auto* const bytes = to.as<std::byte>();
  std::copy(content.begin(), content.end(), bytes);
  if (value.type.follows_axis()) return;
  const auto size = static_cast<std::ptrdiff_t>(size_of(to.dtype));
  for (auto* next = bytes + content.size(); next < bytes + to.bytes(); next += size)
    std::copy_n(next - size, size, next);
}

std::span<const std::byte> Batch::content(std::string_view name) const {
  const auto* const found =
      std::find_if(columns.begin(), columns.end(), [&](const Content& column) { return column.name == name; });
  SPILLWAY_CHECK(found != columns.end(), "the batch has no column {}", name);
  return found->bytes;
}

Batch batch_of(const data::MicroBatch& rows) {
  const auto bytes = [](const std::vector<int32_t>& list) { return std::as_bytes(std::span(list)); };
  Batch batch{.tokens = rows.tokens(),
              .rows = rows.rows,
              .columns = {{{"ids", bytes(rows.ids)},
                           {"labels", bytes(rows.labels)},
                           {"positions", bytes(rows.positions)},
                           {"seq_offsets", bytes(rows.seq_offsets)}}}};
  size_t next = 4;
  const auto add = [&](const auto& column) {
    SPILLWAY_CHECK(next < Batch::kMaxColumns, "no room for the column {}", column.name);
    batch.columns[next++] = {column.name, std::as_bytes(std::span(column.values))};
  };
  for (const data::MicroBatch::Numbers& numbers : rows.numbers) add(numbers);
  for (const data::MicroBatch::Indices& indices : rows.indices) add(indices);
  return batch;
}

void clear_column(const Value& value, const TensorView& to) {
  if (!value.type.follows_axis()) std::fill_n(to.as<std::byte>(), to.bytes(), std::byte{});
}

}  // namespace spillway::infer
