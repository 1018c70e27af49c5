// Work items of the backward pass: dq takes a tile of queries of a few heads that share a key head, and walks over the
// keys they see; dk and dv take a tile of keys, and walk over the heads of the group and the queries that see them.
// Scores are computed anew in each, so that no two items write to one place.
#include <algorithm>

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/for_each.h"

namespace spillway::cpu::attention {
namespace {

void query_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Item& item,
                     Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size), heads = item.head_end - item.head;
  float* queries = pieces.take(kItemHeads * kRowTile * args.head_size);
  float* d_outputs = pieces.take(kItemHeads * kRowTile * args.head_size);
  float* sums = pieces.take(kItemHeads * kRowTile * width);
  float* keys = pieces.take(kColumnTile * args.head_size);
  float* values = pieces.take(kColumnTile * args.head_size);
  float* key_features = pieces.take(kColumnTile * width);
  float* scores = pieces.take(kRowTile * kColumnTile);
  float* d_scores = pieces.take(kRowTile * kColumnTile);

  Tile tile = make_tile(job, item, true);
  const int64_t token = item.sequence.token;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t into = h * kRowTile * args.head_size;
    pack_rows(tile, job.query(token + item.row, item.head + h), queries + into);
    pack_rows(tile, job.output(grad.d_o, token + item.row, item.head + h), d_outputs + into);
  }
  std::fill_n(sums, kItemHeads * kRowTile * width, 0.0f);

  for (tile.column = job.first_key_tile(item.row); tile.column < item.row_end; tile.column += kColumnTile) {
    tile.columns = std::min(kColumnTile, item.row_end - tile.column);
    pack_tokens(tile, job.key(token + tile.column, item.kv_head), keys);
    pack_tokens(tile, job.value(token + tile.column, item.kv_head), values);
    pack_features(tile, job.key(token + tile.column, item.kv_head), key_features);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t into = h * kRowTile * args.head_size;
      multiply_scores(tile, queries + into, keys, scores);
      multiply_scores(tile, d_outputs + into, values, d_scores);
      for_each_row(tile, [&](int64_t row, const RowSpan& span) {
        const int64_t at = (token + item.row + row) * args.heads + item.head + h;
        softmax_grad_row(scores + row * kColumnTile, d_scores + row * kColumnTile, span, args.scale, args.lse[at],
                         delta[at], tile.format);
      });
      add_weighted(tile, d_scores, key_features, sums + h * kRowTile * width);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    const HeadView out = job.view(grad.dq, args.q_stride, token + item.row, item.head + h);
    write_rows(tile, sums + h * kRowTile * width, out);
  }
}

void key_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Item& item, Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size);
  float* keys = pieces.take(kRowTile * args.head_size);
  float* values = pieces.take(kRowTile * args.head_size);
  float* key_sums = pieces.take(kRowTile * width);
  float* value_sums = pieces.take(kRowTile * width);
  float* queries = pieces.take(kColumnTile * args.head_size);
  float* d_outputs = pieces.take(kColumnTile * args.head_size);
  float* query_features = pieces.take(kColumnTile * width);
  float* d_output_features = pieces.take(kColumnTile * width);
  float* scores = pieces.take(kRowTile * kColumnTile);
  float* d_scores = pieces.take(kRowTile * kColumnTile);
  float* column_lse = pieces.take(kColumnTile);
  float* column_delta = pieces.take(kColumnTile);

  Tile tile = make_tile(job, item, false);
  const int64_t token = item.sequence.token;
  pack_rows(tile, job.key(token + item.row, item.kv_head), keys);
  pack_rows(tile, job.value(token + item.row, item.kv_head), values);
  std::fill_n(key_sums, kRowTile * width, 0.0f);
  std::fill_n(value_sums, kRowTile * width, 0.0f);

  const int64_t last_query = tile.mask.end(item.row_end - 1);
  for (int64_t head = item.head; head < item.head_end; ++head) {
    for (tile.column = item.row / kColumnTile * kColumnTile; tile.column < last_query; tile.column += kColumnTile) {
      tile.columns = std::min(kColumnTile, last_query - tile.column);
      const HeadView query = job.query(token + tile.column, head);
      const HeadView d_output = job.output(grad.d_o, token + tile.column, head);
      pack_tokens(tile, query, queries);
      pack_tokens(tile, d_output, d_outputs);
      pack_features(tile, query, query_features);
      pack_features(tile, d_output, d_output_features);
      for (int64_t i = 0; i < kColumnTile; ++i) {
        const int64_t at = (token + tile.column + i) * args.heads + head;
        column_lse[i] = i < tile.columns ? args.lse[at] : 0;
        column_delta[i] = i < tile.columns ? delta[at] : 0;
      }
      multiply_scores(tile, keys, queries, scores);
      multiply_scores(tile, values, d_outputs, d_scores);
      for_each_row(tile, [&](int64_t row, const RowSpan& span) {
        softmax_grad_columns(scores + row * kColumnTile, d_scores + row * kColumnTile, span, args.scale, column_lse,
                             column_delta, tile.format);
      });
      add_weighted(tile, scores, d_output_features, value_sums);
      add_weighted(tile, d_scores, query_features, key_sums);
    }
  }
  const auto out = [&](void* data, int64_t stride) { return job.view(data, stride, token + item.row, item.kv_head); };
  write_rows(tile, key_sums, out(grad.dk, args.k_stride));
  write_rows(tile, value_sums, out(grad.dv, args.v_stride));
}

// delta[token, head] = sum over the head of d_o * o.
void compute_delta(const AttentionArgs& args, const void* d_o, float* delta, ThreadPool& pool) {
  constexpr int64_t kGrain = 64;
  pool.parallel_for(args.seq_offsets[args.sequences] * args.heads, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * args.head_size;
      delta[i] =
          args.dtype == DType::kF32
              ? dot_row(static_cast<const float*>(d_o) + at, static_cast<const float*>(args.o) + at, args.head_size)
              : dot_row(static_cast<const bf16*>(d_o) + at, static_cast<const bf16*>(args.o) + at, args.head_size);
    }
  });
}

}  // namespace
}  // namespace spillway::cpu::attention

namespace spillway::cpu {

void attention_backward_with(const MatmulKernels& kernels, Bf16Path path, const AttentionGradArgs& grad,
                             std::byte* workspace, ThreadPool& pool) {
  const AttentionArgs& args = grad.forward;
  attention::check(kernels, args, workspace);
  float* delta = reinterpret_cast<float*>(workspace);
  float* scratch = delta + attention::shared_floats(args.tokens, args.heads);
  const int64_t floats = attention::thread_floats(args.head_size);
  attention::compute_delta(args, grad.d_o, delta, pool);

  const attention::Job job{kernels, attention::format_of(args, path), args};
  const attention::Items query_items(job, std::min(job.group(), attention::kItemHeads)), key_items(job, job.group());
  const int64_t query_count = query_items.count(), key_count = key_items.count();
  for_each(pool, query_count + key_count, [&](int64_t index, int thread) {
    const attention::Pieces pieces(scratch + thread * floats, floats);
    if (index < key_count) {
      attention::key_grad_item(job, grad, delta, key_items[index], pieces);
    } else {
      attention::query_grad_item(job, grad, delta, query_items[index - key_count], pieces);
    }
  });
  attention::clear_rest(args, grad.dq, args.q_stride, args.heads * args.head_size);
  attention::clear_rest(args, grad.dk, args.k_stride, args.kv_heads * args.head_size);
  attention::clear_rest(args, grad.dv, args.v_stride, args.kv_heads * args.head_size);
}

void attention_backward(const AttentionGradArgs& args, std::byte* workspace, ThreadPool& pool) {
  attention_backward_with(best_matmul_kernels(), bf16_path_of(args.forward), args, workspace, pool);
}

}  // namespace spillway::cpu
