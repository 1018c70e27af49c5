// Sorts the pairs of tokens and experts of a mixture by expert.
#pragma once

#include <cstdint>

#include "graph/builder.h"

namespace spillway::ops {

// Pair p of T tokens with k experts each is expert p % k of token p / k. Rows of pairs are values [T, k * D]: k rows of
// D numbers for each token of the stream, sorted, so that those of an expert lie together and the first rows of a token
// are not its own.
struct SortedPairs {
  ValueId order = kNone;    // i32 [T, k]: the pair that is at a place
  ValueId inverse = kNone;  // i32 [T, k]: the place of a pair
  ValueId offsets = kNone;  // i32 [E + 1]: where the rows of an expert begin; behind them, the number of pairs
};

// Sorts the pairs of `experts`, i32 [T, k], each in [0, count). Pairs of one expert keep their order.
[[nodiscard]] SortedPairs sort_pairs(Builder& builder, ValueId experts, int64_t count);

// Checks the places of pairs, i32 [T, k] of the tokens of `rows`, and that these are k rows for each token. Throws
// InputError "[op] ...".
void expect_pairs(std::string_view op, std::string_view what, const ValueType& pairs, const ValueType& rows);

}  // namespace spillway::ops
