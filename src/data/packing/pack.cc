#include "data/packing/pack.h"

#include <algorithm>

#include "base/math.h"
#include "data/packing/best_fit.h"
#include "data/packing/first_fit.h"

namespace spillway::data {
namespace {

struct Scope {
  int64_t begin = 0, end = 0;  // rows
};

// Calls pack_scope(scope) for scope after scope.
template <typename PackScope>
void for_scopes(const RowTable& rows, const PackOptions& options, const PackScope& pack_scope) {
  const int64_t most = options.scope_rows > 0 ? options.scope_rows : std::max<int64_t>(1, rows.size());
  for (int64_t begin = 0; begin < rows.size(); begin += most) {
    const Scope scope{begin, std::min(rows.size(), begin + most)};
    pack_scope(scope);
    if (options.progress) options.progress(scope.end, rows.size());
  }
}

// Returns the sequences of a row: its start that fits, or as many sequences as needed.
void add_sequences(const Piece& row, const PackOptions& options, std::vector<Piece>& sequences) {
  const auto capacity = narrow<int32_t>(options.capacity);
  const int32_t end = options.strategy == PackingStrategy::kBfd ? std::min(row.length, capacity) : row.length;
  for (int32_t begin = 0; begin < end; begin += std::min(capacity, end - begin))
    sequences.push_back({.begin = row.begin + begin, .length = std::min(capacity, end - begin)});
}

Lines pack_best_fit(const RowTable& rows, const PackOptions& options) {
  Lines lines;
  BestFitPacker packer(options.capacity);
  std::vector<Piece> sequences;
  for_scopes(rows, options, [&](const Scope& scope) {
    sequences.clear();
    for (int64_t row = scope.begin; row < scope.end; ++row) add_sequences(rows.row(row), options, sequences);
    std::function<void(int64_t)> progress;
    if (options.progress) {
      progress = [&](int64_t packed) {
        options.progress(scope.begin + (scope.end - scope.begin) * packed / std::ssize(sequences), rows.size());
      };
    }
    packer.pack(sequences, lines, progress);
  });
  return lines;
}

// Packs one sequence per line: rows follow each other without a boundary and are cut wherever a line is full.
Lines pack_wrapped(const RowTable& rows, const PackOptions& options) {
  Lines lines;
  for_scopes(rows, options, [&](const Scope& scope) {
    int64_t tokens = 0;  // of the line
    for (int64_t i = scope.begin; i < scope.end; ++i) {
      const Piece row = rows.row(i);
      for (int64_t begin = 0; begin < row.length;) {
        const int64_t length = std::min(row.length - begin, options.capacity - tokens);
        lines.pieces.push_back(
            {.begin = row.begin + begin, .length = narrow<int32_t>(length), .continues = tokens > 0});
        begin += length;
        tokens += length;
        if (tokens < options.capacity) continue;
        lines.end_line();
        tokens = 0;
      }
    }
    if (tokens > 0) lines.end_line();
  });
  return lines;
}

}  // namespace

Lines pack(const RowTable& rows, const PackOptions& options) {
  switch (options.strategy) {
    case PackingStrategy::kBfd:
    case PackingStrategy::kBfdSplit:
      return pack_best_fit(rows, options);
    case PackingStrategy::kWrapped:
      return pack_wrapped(rows, options);
    case PackingStrategy::kFirstFit:
      return pack_first_fit(rows, options.capacity, options.line_rows);
    case PackingStrategy::kSequential:
      return pack_sequential(rows, options.capacity);
  }
  SPILLWAY_CHECK(false, "packing strategy {}", static_cast<int>(options.strategy));
}

}  // namespace spillway::data
