#include "ops/attention/shared_attention.h"

#include <numeric>

#include "base/error.h"
#include "ops/collectives/exchange_rows/exchange_rows.h"
#include "ops/collectives/own_elements/own_elements.h"
#include "ops/deal_columns/deal_columns.h"

namespace spillway::ops {

// So many neighbouring query heads of a rank share a key head, on all ranks: a divisor of those that do so in the
// model. Key heads are sent once for each group of so many.
ValueId shared_attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                         const AttentionOptions& options, const SharedStream& stream, ValueId sinks) {
  SPILLWAY_CHECK(stream.ranks >= 2 && stream.ranks <= options.heads, "{} ranks for {} heads", stream.ranks,
                 options.heads);
  const ColumnDeal queries{.ranks = stream.ranks, .blocks = options.heads};
  const int64_t group = options.heads / options.kv_heads, shared = std::gcd(queries.of_piece(), group);
  const ColumnDeal keys{.ranks = stream.ranks, .blocks = options.kv_heads, .spread = group / shared};
  const auto by_heads = [&](ValueId x, const ColumnDeal& deal) {
    return exchange_rows(builder, deal_columns(builder, x, deal, stream.whole), stream.ranks);
  };
  AttentionOptions own = options;
  own.heads = queries.of_piece();
  own.kv_heads = keys.of_piece();
  const AxisId axis = builder.type(q).axis;
  const ValueId own_sinks = sinks == kNone ? kNone : own_elements(builder, sinks, stream.ranks);
  const ValueId own_q = by_heads(q, queries), own_k = by_heads(k, keys), own_v = by_heads(v, keys);
  const ValueId o = attention(builder, own_q, own_k, own_v, seq_offsets, own, own_sinks);
  return collect_columns(builder, exchange_rows(builder, o, stream.ranks), queries, axis);
}

}  // namespace spillway::ops
