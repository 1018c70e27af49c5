// A chunk of the gated delta rule, forward and backward, as products of small matrices: written once for a thread of
// the CPU and for a block of threads of a GPU, each of which is a Team.
//
// With the state S before the chunk, G the running sums of its decays, c_t = exp(G_t), D_tj = exp(G_t - G_j) for j <=
// t, the tokens' corrections W solve a unit triangular system, and all else follows from them:
//   (I + L) W = R,  L_tj = beta_t D_tj (k_t . k_j) for j < t,  R_t = beta_t (v_t - c_t S^T k_t)
//   Y = c (Q S) + A W,  A_tj = D_tj (q_t . k_j) for j <= t
//   S <- c_last S + sum over t of exp(G_last - G_t) k_t W_t^T
// A rule that adds (StateRule::kAdds) has no L, and W_t = beta_t v_t.
//
// A Team has
//   each(n, f)                 f(i) for i in [0, n), then all see the results
//   product(m, n, p, a, b, c, adds)    c (+)= a b, [m, n] by [n, p]; rows of b and c hold whole vectors
//   solve(n, p, l, w)          w <- (I + l)^-1 w, l strictly lower triangular [n, n]
//   solve_transposed(n, p, l, w)       w <- (I + l)^-T w
//   store(value, to)           *to = value, rounded
#if defined(SPILLWAY_OPS_GATED_DELTA_RULE_CHUNK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_GATED_DELTA_RULE_CHUNK_INL_H
#undef SPILLWAY_OPS_GATED_DELTA_RULE_CHUNK_INL_H
#else
#define SPILLWAY_OPS_GATED_DELTA_RULE_CHUNK_INL_H
#endif

#include <cmath>

#include "ops/gated_delta_rule/operands.h"
#include "ops/gated_delta_rule/scratch.h"
#include "ops/number-inl.h"
#include "tensor/dtype.h"

#ifdef __CUDACC__
#define SPILLWAY_TEAM_FUNCTION __device__
#else
#define SPILLWAY_TEAM_FUNCTION
#endif

SPILLWAY_FORMULAS_BEGIN

// The operands of a stream; those of the gradient are null forward.
template <typename T>
struct DeltaStream {
  const T* qkv;
  const float *decay, *beta;
  const T* dy;
  T* dqkv;
  float *ddecay, *dbeta;
  float* states;  // that the gradient keeps: [tokens / kDeltaChunk, value_heads, key_dim, value_width]
};

// A chunk: tokens [first, first + count) of the stream.
template <typename Team, typename T>
class DeltaChunk {
 public:
  SPILLWAY_TEAM_FUNCTION DeltaChunk(Team& team, const DeltaSizes& sizes, const DeltaScratch& scratch,
                                    const DeltaStream<T>& stream, int64_t first, int64_t count)
      : team_(team), sizes_(sizes), s_(scratch), stream_(stream), first_(first), count_(count) {}

  // Loads and normalises the queries and keys of a head, and multiplies them.
  SPILLWAY_TEAM_FUNCTION void load_keys(int64_t key_head) {
    const int64_t dim = sizes_.key_dim, count = count_;
    const bool corrects = sizes_.corrects;
    const float root = corrects ? sqrtf(static_cast<float>(dim)) : 1;
    const T* const queries = stream_.qkv + first_ * sizes_.columns() + sizes_.query_at(key_head);
    const T* const keys = stream_.qkv + first_ * sizes_.columns() + sizes_.key_at(key_head);
    const int64_t columns = sizes_.columns();
    const DeltaScratch& s = s_;
    team_.each(count, [&](int64_t t) {
      float of_query = kDeltaEps, of_key = kDeltaEps;
      for (int64_t i = 0; i < dim; ++i) {
        const float q = to_float(queries[t * columns + i]), k = to_float(keys[t * columns + i]);
        of_query += q * q;
        of_key += k * k;
      }
      s.query_scales[t] = corrects ? 1 / sqrtf(of_query) : 1;
      s.key_scales[t] = corrects ? 1 / sqrtf(of_key) : 1;
    });
    team_.each(count * dim, [&](int64_t at) {
      const int64_t t = at / dim, i = at % dim;
      const float k = to_float(keys[t * columns + i]) * s.key_scales[t];
      s.q(t, i) = to_float(queries[t * columns + i]) * s.query_scales[t] / root;
      s.k(t, i) = k;
      s.k_transposed(i, t) = k;
    });
    if (corrects) team_.product(count, dim, count, s.k.plain(), s.k_transposed, s.products, false);
  }

  // Loads the values and gates of a head, whose keys are loaded, and solves for its corrections. `state` is that before
  // the chunk.
  SPILLWAY_TEAM_FUNCTION void correct(int64_t value_head, const DeltaPlane& state) {
    const int64_t dim = sizes_.value_dim, count = count_, heads = sizes_.value_heads;
    const bool corrects = sizes_.corrects;
    const DeltaScratch& s = s_;
    const float* const decay = stream_.decay + first_ * heads + value_head;
    const float* const beta = stream_.beta + first_ * heads + value_head;
    team_.each(1, [&](int64_t) {
      float sum = 0;
      for (int64_t t = 0; t < count; ++t) s.sums[t] = sum += decay[t * heads];
    });
    team_.each(count, [&](int64_t t) {
      s.betas[t] = beta[t * heads];
      s.factors[t] = expf(s.sums[t]);
      s.to_end[t] = expf(s.sums[count - 1] - s.sums[t]);
    });
    team_.each(count * count, [&](int64_t at) {
      const int64_t t = at / count, j = at % count;
      const float decayed = j <= t ? expf(s.sums[t] - s.sums[j]) : 0;
      s.decays(t, j) = decayed;
      if (corrects) s.correction(t, j) = j < t ? s.betas[t] * decayed * s.products(t, j) : 0;
    });
    if (corrects) team_.product(count, sizes_.key_dim, dim, s.k.plain(), state, s.predicted, false);
    const T* const values = stream_.qkv + first_ * sizes_.columns() + sizes_.value_at(value_head);
    const int64_t columns = sizes_.columns();
    team_.each(count * dim, [&](int64_t at) {
      const int64_t t = at / dim, c = at % dim;
      s.v(t, c) = to_float(values[t * columns + c]);
      s.w(t, c) = s.betas[t] * (corrects ? s.v(t, c) - s.factors[t] * s.predicted(t, c) : s.v(t, c));
    });
    if (corrects) team_.solve(count, dim, s.correction, s.w);
    const int64_t keys = sizes_.key_dim;
    team_.each(count * keys, [&](int64_t at) {
      const int64_t t = at / keys, i = at % keys;
      s.k_decayed(t, i) = s.to_end[t] * s.k(t, i);
    });
  }

  // Computes c S^T q and A. REQUIRES: correct().
  SPILLWAY_TEAM_FUNCTION void read(const DeltaPlane& state) {
    const int64_t dim = sizes_.value_dim, count = count_;
    const DeltaScratch& s = s_;
    team_.product(count, sizes_.key_dim, dim, s.q.plain(), state, s.read, false);
    team_.product(count, sizes_.key_dim, count, s.q.plain(), s.k_transposed, s.attention, false);
    team_.each(count * dim, [&](int64_t at) { s.read(at / dim, at % dim) *= s.factors[at / dim]; });
    team_.each(count * count,
               [&](int64_t at) { s.attention(at / count, at % count) *= s.decays(at / count, at % count); });
  }

  // Writes what the tokens get. REQUIRES: read().
  SPILLWAY_TEAM_FUNCTION void write(int64_t value_head, T* y) {
    const int64_t dim = sizes_.value_dim, count = count_, width = sizes_.value_heads * dim;
    const DeltaScratch& s = s_;
    team_.product(count, count, dim, s.attention.plain(), s.w, s.read, true);
    T* const to = y + first_ * width + value_head * dim;
    team_.each(count * dim,
               [&](int64_t at) { Team::store(s.read(at / dim, at % dim), to + at / dim * width + at % dim); });
  }

  // Computes the state behind the chunk out of `state`, in its place. REQUIRES: correct().
  SPILLWAY_TEAM_FUNCTION void advance(const DeltaPlane& state) {
    const int64_t dim = sizes_.value_dim, count = count_;
    const float factor = s_.factors[count - 1];
    team_.each(sizes_.key_dim * dim, [&](int64_t at) { state(at / dim, at % dim) *= factor; });
    team_.product(sizes_.key_dim, count, dim, s_.k_decayed.transposed(), s_.w, state, true);
  }

  // Adds a value head's part to the gradients of normalised queries and keys, or sets them for the `first` one; writes
  // those of its values and gates; and turns `dstate` from the gradient of the state behind the chunk to that of
  // `state`, which is before it. REQUIRES: read().
  SPILLWAY_TEAM_FUNCTION void pull_back(int64_t value_head, const DeltaPlane& state, const DeltaPlane& dstate,
                                        bool first) {
    const int64_t dim = sizes_.value_dim, keys = sizes_.key_dim, count = count_;
    const DeltaScratch& s = s_;
    load_dy(value_head);
    team_.product(count, count, dim, s.attention.transposed(), s.dy, s.dw, false);
    team_.product(count, keys, dim, s.k_decayed.plain(), dstate, s.dw, true);
    const bool corrects = sizes_.corrects;
    if (corrects) team_.solve_transposed(count, dim, s.correction, s.dw);
    team_.each(count * dim, [&](int64_t at) { s.w_transposed(at % dim, at / dim) = s.w(at / dim, at % dim); });
    team_.product(count, dim, count, s.dy.plain(), s.w_transposed, s.dattention, false);
    if (corrects) team_.product(count, dim, count, s.dw.plain(), s.w_transposed, s.dcorrection, false);
    transpose(dstate);
    team_.product(count, dim, keys, s.w.plain(), s.state_transposed, s.dk_decayed, false);
    pull_back_gates(value_head, state, dstate);
    transpose(state);
    team_.product(count, count, keys, s.dattention.plain(), s.k, s.dq, !first);
    team_.product(count, dim, keys, s.dy.plain(), s.state_transposed, s.dq, true);
    if (corrects) {
      team_.product(count, count, keys, s.dcorrection.plain(), s.k, s.dk, !first);
      team_.product(count, count, keys, s.dcorrection.transposed(), s.k, s.dk, true);
      team_.product(count, dim, keys, s.predicted.plain(), s.state_transposed, s.dk, true);
    }
    team_.product(count, count, keys, s.dattention.transposed(), s.q, s.dk, corrects || !first);
    team_.each(count * keys, [&](int64_t at) {
      s.dk(at / keys, at % keys) += s.to_end[at / keys] * s.dk_decayed(at / keys, at % keys);
    });
    const float factor = s.factors[count - 1];
    team_.each(keys * dim, [&](int64_t at) { dstate(at / dim, at % dim) *= factor; });
    team_.product(keys, count, dim, s.q.transposed(), s.dy, dstate, true);
    if (corrects) team_.product(keys, count, dim, s.k.transposed(), s.predicted, dstate, true);
  }

  // Writes the gradients of queries and keys behind their normalisation.
  SPILLWAY_TEAM_FUNCTION void write_keys(int64_t key_head) {
    const int64_t dim = sizes_.key_dim, columns = sizes_.columns();
    const float root = sqrtf(static_cast<float>(dim));
    T* const queries = stream_.dqkv + first_ * columns + sizes_.query_at(key_head);
    T* const keys = stream_.dqkv + first_ * columns + sizes_.key_at(key_head);
    const DeltaScratch& s = s_;
    if (!sizes_.corrects) {
      team_.each(count_ * dim, [&](int64_t at) {
        const int64_t t = at / dim, i = at % dim;
        Team::store(s.dq(t, i), queries + t * columns + i);
        Team::store(s.dk(t, i), keys + t * columns + i);
      });
      return;
    }
    team_.each(count_, [&](int64_t t) {
      float of_query = 0, of_key = 0;
      for (int64_t i = 0; i < dim; ++i) {
        of_query += s.q(t, i) * s.dq(t, i);
        of_key += s.k(t, i) * s.dk(t, i);
      }
      for (int64_t i = 0; i < dim; ++i) {
        Team::store(s.query_scales[t] * (s.dq(t, i) / root - s.q(t, i) * of_query * root), queries + t * columns + i);
        Team::store(s.key_scales[t] * (s.dk(t, i) - s.k(t, i) * of_key), keys + t * columns + i);
      }
    });
  }

 private:
  SPILLWAY_TEAM_FUNCTION void load_dy(int64_t value_head) {
    const int64_t dim = sizes_.value_dim, width = sizes_.value_heads * dim;
    const T* const from = stream_.dy + first_ * width + value_head * dim;
    const DeltaScratch& s = s_;
    team_.each(count_ * dim,
               [&](int64_t at) { s.dy(at / dim, at % dim) = to_float(from[at / dim * width + at % dim]); });
  }

  SPILLWAY_TEAM_FUNCTION void transpose(const DeltaPlane& state) {
    const int64_t dim = sizes_.value_dim;
    const DeltaScratch& s = s_;
    team_.each(sizes_.key_dim * dim,
               [&](int64_t at) { s.state_transposed(at % dim, at / dim) = state(at / dim, at % dim); });
  }

  // Writes the gradients of values, betas and decays. Turns dattention and dcorrection, which hold those of A and the
  // negative of those of L, into those of q . k and k . k; dy into c dy; and `predicted` into the gradient of S^T k.
  // dw is the gradient of R.
  SPILLWAY_TEAM_FUNCTION void pull_back_gates(int64_t value_head, const DeltaPlane& state, const DeltaPlane& dstate) {
    const int64_t dim = sizes_.value_dim, count = count_, heads = sizes_.value_heads;
    const bool corrects = sizes_.corrects;
    const DeltaScratch& s = s_;
    float* const dbeta = stream_.dbeta + first_ * heads + value_head;
    // The gradient of G but for what comes from the end of the chunk: D_tj rises with G_t and falls with G_j.
    team_.each(count, [&](int64_t t) {
      float of_beta = 0, of_sum = 0;
      for (int64_t c = 0; c < dim; ++c) {
        const float predicted = corrects ? s.factors[t] * s.predicted(t, c) : 0;
        of_beta += s.dw(t, c) * (s.v(t, c) - predicted);
        of_sum += s.dy(t, c) * s.read(t, c) - s.betas[t] * predicted * s.dw(t, c);
      }
      for (int64_t j = 0; j < t; ++j) of_sum += s.dattention(t, j) * s.attention(t, j);
      for (int64_t i = t + 1; i < count; ++i) of_sum -= s.dattention(i, t) * s.attention(i, t);
      for (int64_t j = 0; corrects && j < t; ++j) {
        of_beta -= s.dcorrection(t, j) * s.decays(t, j) * s.products(t, j);
        of_sum -= s.dcorrection(t, j) * s.correction(t, j);
      }
      for (int64_t i = t + 1; corrects && i < count; ++i) of_sum += s.dcorrection(i, t) * s.correction(i, t);
      dbeta[t * heads] = of_beta;
      s.dsums[t] = of_sum;
    });
    pull_back_decays(value_head, state, dstate);
    T* const values = stream_.dqkv + first_ * sizes_.columns() + sizes_.value_at(value_head);
    const int64_t columns = sizes_.columns();
    team_.each(count * dim, [&](int64_t at) {
      const int64_t t = at / dim, c = at % dim;
      const float pulled = s.betas[t] * s.dw(t, c);
      Team::store(pulled, values + t * columns + c);
      if (corrects) s.predicted(t, c) = -s.factors[t] * pulled;
      s.dy(t, c) *= s.factors[t];
    });
    team_.each(count * count, [&](int64_t at) {
      const int64_t t = at / count, j = at % count;
      s.dattention(t, j) *= s.decays(t, j);
      if (corrects) s.dcorrection(t, j) = j < t ? -s.dcorrection(t, j) * s.betas[t] * s.decays(t, j) : 0;
    });
  }

  // Writes the gradients of the decays, of which G_t sums those up to t.
  SPILLWAY_TEAM_FUNCTION void pull_back_decays(int64_t value_head, const DeltaPlane& state, const DeltaPlane& dstate) {
    const int64_t dim = sizes_.value_dim, keys = sizes_.key_dim, count = count_, heads = sizes_.value_heads;
    const DeltaScratch& s = s_;
    float* const ddecay = stream_.ddecay + first_ * heads + value_head;
    team_.each(keys, [&](int64_t i) {
      float sum = 0;
      for (int64_t c = 0; c < dim; ++c) sum += state(i, c) * dstate(i, c);
      s.state_sums[i] = sum;
    });
    team_.each(count, [&](int64_t t) {
      float sum = 0;
      for (int64_t i = 0; i < keys; ++i) sum += s.k_decayed(t, i) * s.dk_decayed(t, i);
      s.key_sums[t] = sum;
    });
    team_.each(1, [&](int64_t) {
      float to_last = 0;
      for (int64_t i = 0; i < keys; ++i) to_last += s.state_sums[i];
      to_last *= s.factors[count - 1];
      for (int64_t t = 0; t < count; ++t) to_last += s.key_sums[t];
      float sum = to_last;
      for (int64_t t = count; t-- > 0;) ddecay[t * heads] = sum += s.dsums[t] - s.key_sums[t];
    });
  }

  Team& team_;
  const DeltaSizes& sizes_;
  const DeltaScratch& s_;
  const DeltaStream<T>& stream_;
  int64_t first_, count_;
};

// Computes a value head of a sequence.
template <typename Team, typename T>
SPILLWAY_TEAM_FUNCTION void delta_forward(Team& team, const DeltaSizes& sizes, const DeltaStream<T>& stream,
                                          const DeltaSequences& sequences, int64_t sequence, int64_t value_head,
                                          float* memory, T* y) {
  const DeltaScratch scratch(sizes, memory, false);
  team.each(sizes.state_floats(), [&](int64_t at) { scratch.state.at[at] = 0; });
  const int64_t end = sequences.end(sequence);
  for (int64_t first = sequences.begin(sequence); first < end; first += kDeltaChunk) {
    const int64_t rest = end - first;
    DeltaChunk<Team, T> chunk(team, sizes, scratch, stream, first, rest < kDeltaChunk ? rest : kDeltaChunk);
    chunk.load_keys(value_head / sizes.group());
    chunk.correct(value_head, scratch.state);
    chunk.read(scratch.state);
    chunk.write(value_head, y);
    if (rest > kDeltaChunk) chunk.advance(scratch.state);
  }
}

// The gradient of a key head, and of the value heads that it serves, in a sequence.
template <typename Team, typename T>
class DeltaGradient {
 public:
  SPILLWAY_TEAM_FUNCTION DeltaGradient(Team& team, const DeltaSizes& sizes, const DeltaStream<T>& stream,
                                       const DeltaSequences& sequences, int64_t sequence, int64_t key_head,
                                       float* memory)
      : team_(team),
        sizes_(sizes),
        stream_(stream),
        sequences_(sequences),
        scratch_(sizes, memory, true),
        sequence_(sequence),
        key_head_(key_head),
        begin_(sequences.begin(sequence)),
        tokens_(sequences.end(sequence) - begin_) {}

  SPILLWAY_TEAM_FUNCTION void compute() {
    if (tokens_ <= 0) return;
    const int64_t chunks = (tokens_ + kDeltaChunk - 1) / kDeltaChunk, group = sizes_.group();
    for (int64_t i = 0; i < group; ++i) keep_states(key_head_ * group + i, chunks);
    team_.each(group * sizes_.state_floats(), [&](int64_t at) { scratch_.dstates[at] = 0; });
    for (int64_t number = chunks; number-- > 0;) {
      DeltaChunk<Team, T> chunk = chunk_at(number);
      chunk.load_keys(key_head_);
      for (int64_t i = 0; i < group; ++i) {
        const int64_t head = key_head_ * group + i;
        const DeltaPlane before = state_before(number, head);
        chunk.correct(head, before);
        chunk.read(before);
        chunk.pull_back(head, before, {scratch_.dstates + i * sizes_.state_floats(), sizes_.value_width()}, i == 0);
      }
      chunk.write_keys(key_head_);
    }
  }

 private:
  [[nodiscard]] SPILLWAY_TEAM_FUNCTION DeltaChunk<Team, T> chunk_at(int64_t number) {
    const int64_t first = number * kDeltaChunk, rest = tokens_ - first;
    return {team_, sizes_, scratch_, stream_, begin_ + first, rest < kDeltaChunk ? rest : kDeltaChunk};
  }

  // Returns the state before a chunk: zeros before the first one.
  [[nodiscard]] SPILLWAY_TEAM_FUNCTION DeltaPlane state_before(int64_t number, int64_t head) {
    const DeltaPlane& zeros = scratch_.state;
    if (number > 0) {
      const int64_t place = sequences_.place(sequence_, number) * sizes_.value_heads + head;
      return {stream_.states + place * sizes_.state_floats(), sizes_.value_width()};
    }
    team_.each(sizes_.state_floats(), [&](int64_t at) { zeros.at[at] = 0; });
    return zeros;
  }

  // Computes the states of a value head before all chunks but the first.
  SPILLWAY_TEAM_FUNCTION void keep_states(int64_t head, int64_t chunks) {
    const DeltaPlane state = state_before(0, head);
    for (int64_t number = 0; number + 1 < chunks; ++number) {
      DeltaChunk<Team, T> chunk = chunk_at(number);
      chunk.load_keys(key_head_);
      chunk.correct(head, state);
      chunk.advance(state);
      const DeltaPlane kept = state_before(number + 1, head);
      team_.each(sizes_.state_floats(), [&](int64_t at) { kept.at[at] = state.at[at]; });
    }
  }

  Team& team_;
  const DeltaSizes& sizes_;
  const DeltaStream<T>& stream_;
  const DeltaSequences& sequences_;
  DeltaScratch scratch_;
  int64_t sequence_, key_head_, begin_, tokens_;
};

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
