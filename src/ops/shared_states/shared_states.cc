#include "ops/shared_states/shared_states.h"

#include <numeric>
#include <vector>

#include "ops/causal_conv/causal_conv.h"
#include "ops/collectives/exchange_rows/exchange_rows.h"
#include "ops/collectives/own_elements/own_elements.h"
#include "ops/deal_columns/deal_columns.h"
#include "ops/split_columns/split_columns.h"

namespace spillway::ops {
namespace {

// The way of columns to the ranks that have them for all tokens, and back.
class SharedColumns {
 public:
  SharedColumns(Builder& builder, const SharedStream& stream) : builder_(builder), stream_(stream) {}

  [[nodiscard]] ValueId to_own(ValueId x, const ColumnDeal& deal) const {
    return exchange_rows(builder_, deal_columns(builder_, x, deal, stream_.whole), stream_.ranks);
  }
  // `like` is a value of this rank's rows.
  [[nodiscard]] ValueId from_own(ValueId y, const ColumnDeal& deal, ValueId like) const {
    return collect_columns(builder_, exchange_rows(builder_, y, stream_.ranks), deal, builder_.type(like).axis);
  }

 private:
  Builder& builder_;
  const SharedStream& stream_;
};

// Channels go in runs where they divide, so that columns are copied as long pieces.
ColumnDeal deal_of_channels(int64_t channels, int64_t ranks) {
  return {.ranks = ranks, .blocks = channels % ranks == 0 ? ranks : channels};
}

}  // namespace

ValueId shared_causal_conv(Builder& builder, ValueId x, ValueId weight, ValueId bias, ValueId seq_offsets,
                           const SharedStream& stream) {
  const SharedColumns columns(builder, stream);
  const ColumnDeal deal = deal_of_channels(builder.type(weight).shape[0], stream.ranks);
  const ValueId own_weight = own_elements(builder, weight, stream.ranks);
  const ValueId own_bias = bias == kNone ? kNone : own_elements(builder, bias, stream.ranks);
  return columns.from_own(causal_conv(builder, columns.to_own(x, deal), own_weight, own_bias, seq_offsets), deal, x);
}

// So many neighbouring value heads of a rank share a key head, on all ranks, as in shared_attention().
ValueId shared_delta_rule(Builder& builder, ValueId qkv, ValueId decay, ValueId beta, ValueId seq_offsets,
                          const DeltaHeads& heads, const SharedStream& stream) {
  const SharedColumns columns(builder, stream);
  const ColumnDeal values{.ranks = stream.ranks, .blocks = heads.value_heads};
  const int64_t group = heads.value_heads / heads.key_heads, shared = std::gcd(values.of_piece(), group);
  const ColumnDeal keys{.ranks = stream.ranks, .blocks = heads.key_heads, .spread = group / shared};
  DeltaHeads own = heads;
  own.value_heads = values.of_piece();
  own.key_heads = keys.of_piece();

  const bool begins_with_values = heads.rule == StateRule::kAdds;
  std::vector<int64_t> widths, own_widths;
  std::vector<const ColumnDeal*> deals;
  for (const bool is_value : {begins_with_values, false, !begins_with_values}) {
    const auto width = [&](const DeltaHeads& of) {
      return is_value ? of.value_heads * of.value_dim : of.key_heads * of.key_dim;
    };
    deals.push_back(is_value ? &values : &keys);
    widths.push_back(width(heads));
    own_widths.push_back(width(own));
  }
  std::vector<ValueId> parts = split_columns(builder, qkv, widths);
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = columns.to_own(parts[i], *deals[i]);
  const ValueId own_qkv = join_columns(builder, parts, own_widths);
  const ValueId y =
      gated_delta_rule(builder, own_qkv, columns.to_own(decay, values), columns.to_own(beta, values), seq_offsets, own);
  return columns.from_own(y, values, qkv);
}

ValueId shared_selective_scan(Builder& builder, const ScanOperands& operands, ValueId seq_offsets,
                              const SharedStream& stream) {
  const SharedColumns columns(builder, stream);
  const ColumnDeal channels = deal_of_channels(builder.type(operands.rates).shape[0], stream.ranks);
  const ColumnDeal to_each{.ranks = stream.ranks, .blocks = 1, .spread = stream.ranks};
  const ScanOperands own = {.x = columns.to_own(operands.x, channels),
                            .steps = columns.to_own(operands.steps, channels),
                            .rates = own_elements(builder, operands.rates, stream.ranks),
                            .b = columns.to_own(operands.b, to_each),
                            .c = columns.to_own(operands.c, to_each)};
  return columns.from_own(selective_scan(builder, own, seq_offsets), channels, operands.x);
}

}  // namespace spillway::ops
