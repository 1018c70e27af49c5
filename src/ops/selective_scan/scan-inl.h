// A column of a selective scan, forward and backward: a few neighbouring channels that are computed together, token by
// token. Written once for a vector of channels of the CPU and for a channel of a thread of a GPU, each of which is a
// Column. It has
//   take(row), put(number, row)      its channels of a row of all
//   take_turned(rows, n, i), put_turned(number, rows, n, i)    the same of column i of [channels, n]
//   get(at), set(number, at)         a number in scratch memory
//   add(token, i, db, dc)            what it adds to the sums over channels of db[token, i] and dc[token, i]
//   end_token(token)                 all of these have been added
#if defined(SPILLWAY_OPS_SELECTIVE_SCAN_SCAN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_SELECTIVE_SCAN_SCAN_INL_H
#undef SPILLWAY_OPS_SELECTIVE_SCAN_SCAN_INL_H
#else
#define SPILLWAY_OPS_SELECTIVE_SCAN_SCAN_INL_H
#endif

#include "ops/number-inl.h"
#include "ops/selective_scan/operands.h"
#include "tensor/dtype.h"

#ifdef __CUDACC__
#define SPILLWAY_SCAN_FUNCTION __device__
#else
#define SPILLWAY_SCAN_FUNCTION
#endif

SPILLWAY_FORMULAS_BEGIN

// Returns the natural logarithm of 1 + x.
SPILLWAY_NUMBER_FUNCTION Number log_of_one_and(Number x) {
#ifdef HWY_TARGET_INCLUDE
  return hn::Log1p(Floats(), x.v);
#else
  return log1pf(x);
#endif
}

template <typename Column, typename T>
class ColumnScan {
 public:
  // Borrows its references.
  SPILLWAY_SCAN_FUNCTION ColumnScan(Column& column, const ScanSizes& sizes, const ScanStream<T>& stream,
                                    const ScanScratch& scratch)
      : column_(column), sizes_(sizes), stream_(stream), scratch_(scratch) {
    for (int64_t i = 0; i < sizes.state; ++i)
      column_.set(column_.take_turned(stream.rates, sizes.state, i), scratch_.rates[i]);
  }

  // Computes tokens [begin, end), which are a sequence.
  SPILLWAY_SCAN_FUNCTION void forward(int64_t begin, int64_t end, T* y) {
    clear(scratch_.state);
    for (int64_t t = begin; t < end; ++t) {
      const Token token = token_at(t);
      Number read = 0;
      for (int64_t i = 0; i < sizes_.state; ++i) {
        const Number state = next(token, t, i, decay(token, i), column_.get(scratch_.state[i]));
        column_.set(state, scratch_.state[i]);
        read = math::mul_add(state, c(t, i), read);
      }
      column_.put(read, y + t * sizes_.channels);
    }
  }

  // Computes a token whose sequence has its states in `states`, [N, D], or begins with it.
  SPILLWAY_SCAN_FUNCTION void step(int64_t t, bool begins, float* states, T* y) {
    const Token token = token_at(t);
    Number read = 0;
    for (int64_t i = 0; i < sizes_.state; ++i) {
      float* const row = states + i * sizes_.channels;
      const Number before = begins ? Number(0) : column_.take(row);
      const Number state = next(token, t, i, decay(token, i), before);
      column_.put(state, row);
      read = math::mul_add(state, c(t, i), read);
    }
    column_.put(read, y + t * sizes_.channels);
  }

  // Computes the gradients of all tokens, and writes those of the rates.
  SPILLWAY_SCAN_FUNCTION void gradient(const ChunkedSequences& sequences, float* drates) {
    clear(scratch_.drates);
    for (int64_t sequence = sequences.count; sequence-- > 0;) sequence_gradient(sequences, sequence);
    for (int64_t i = 0; i < sizes_.state; ++i)
      column_.put_turned(column_.get(scratch_.drates[i]), drates, sizes_.state, i);
  }

 private:
  // The step of a token, and what it adds to a state before b.
  struct Token {
    Number step, added;
  };

  [[nodiscard]] SPILLWAY_SCAN_FUNCTION Token token_at(int64_t t) {
    const Number raw = column_.take(stream_.steps + t * sizes_.channels);
    const Number step = math::max(raw, 0) + log_of_one_and(math::exp(-math::abs(raw)));
    return {step, step * column_.take(stream_.x + t * sizes_.channels)};
  }
  [[nodiscard]] SPILLWAY_SCAN_FUNCTION float b(int64_t t, int64_t i) const {
    return to_float(stream_.b[t * sizes_.state + i]);
  }
  [[nodiscard]] SPILLWAY_SCAN_FUNCTION float c(int64_t t, int64_t i) const {
    return to_float(stream_.c[t * sizes_.state + i]);
  }

  [[nodiscard]] SPILLWAY_SCAN_FUNCTION Number decay(const Token& token, int64_t i) {
    return math::exp(-(token.step * column_.get(scratch_.rates[i])));
  }
  [[nodiscard]] SPILLWAY_SCAN_FUNCTION Number next(const Token& token, int64_t t, int64_t i, Number decay,
                                                   Number before) const {
    return math::mul_add(decay, before, token.added * b(t, i));
  }

  SPILLWAY_SCAN_FUNCTION void clear(const ScanNumbers& numbers) {
    for (int64_t i = 0; i < sizes_.state; ++i) column_.set(Number(0), numbers[i]);
  }

  SPILLWAY_SCAN_FUNCTION void sequence_gradient(const ChunkedSequences& sequences, int64_t sequence) {
    const int64_t begin = sequences.begin(sequence), tokens = sequences.end(sequence) - begin;
    if (tokens <= 0) return;
    const int64_t chunks = (tokens + kSequenceChunk - 1) / kSequenceChunk;
    clear(scratch_.state);
    for (int64_t chunk = 0; chunk + 1 < chunks; ++chunk) {
      pass(begin + chunk * kSequenceChunk);
      for (int64_t i = 0; i < sizes_.state; ++i)
        column_.put(column_.get(scratch_.state[i]), kept(sequences.place(sequence, chunk + 1), i));
    }
    clear(scratch_.dstate);
    for (int64_t chunk = chunks; chunk-- > 0;) {
      if (chunk + 1 < chunks) restore(sequences, sequence, chunk);
      const int64_t first = chunk * kSequenceChunk, rest = tokens - first;
      const int64_t count = rest < kSequenceChunk ? rest : kSequenceChunk;
      compute_states(begin + first, count);
      for (int64_t t = count; t-- > 0;) pull_back(begin + first, t);
    }
  }

  // Returns the row of number i of the states at a place.
  [[nodiscard]] SPILLWAY_SCAN_FUNCTION float* kept(int64_t place, int64_t i) const {
    return stream_.kept + (place * sizes_.state + i) * sizes_.channels;
  }

  // Moves the state over a whole chunk.
  SPILLWAY_SCAN_FUNCTION void pass(int64_t first) {
    for (int64_t t = first; t < first + kSequenceChunk; ++t) {
      const Token token = token_at(t);
      for (int64_t i = 0; i < sizes_.state; ++i) {
        const ScanNumbers& state = scratch_.state;
        column_.set(next(token, t, i, decay(token, i), column_.get(state[i])), state[i]);
      }
    }
  }

  // Sets the state to that before a chunk.
  SPILLWAY_SCAN_FUNCTION void restore(const ChunkedSequences& sequences, int64_t sequence, int64_t chunk) {
    if (chunk == 0) return clear(scratch_.state);
    for (int64_t i = 0; i < sizes_.state; ++i)
      column_.set(column_.take(kept(sequences.place(sequence, chunk), i)), scratch_.state[i]);
  }

  // Returns the state before token t of a chunk whose states are computed.
  [[nodiscard]] SPILLWAY_SCAN_FUNCTION Number state_before(int64_t t, int64_t i) {
    return column_.get(t == 0 ? scratch_.state[i] : scratch_.states[(t - 1) * sizes_.state + i]);
  }

  // Computes the decays and the states of a chunk's tokens, from the state before it.
  SPILLWAY_SCAN_FUNCTION void compute_states(int64_t first, int64_t count) {
    for (int64_t t = 0; t < count; ++t) {
      const Token token = token_at(first + t);
      for (int64_t i = 0; i < sizes_.state; ++i) {
        const Number factor = decay(token, i);
        column_.set(factor, scratch_.decays[t * sizes_.state + i]);
        column_.set(next(token, first + t, i, factor, state_before(t, i)), scratch_.states[t * sizes_.state + i]);
      }
    }
  }

  // Computes the gradients of token t of a chunk, and turns `dstate` from that of the state behind the token, but for
  // what the token reads of it, to that of the state before it.
  SPILLWAY_SCAN_FUNCTION void pull_back(int64_t first, int64_t t) {
    const int64_t at = first + t, row = at * sizes_.channels;
    const Token token = token_at(at);
    const Number dy = column_.take(stream_.dy + row);
    Number dadded = 0, dstep = 0;
    for (int64_t i = 0; i < sizes_.state; ++i) {
      const Number state = column_.get(scratch_.states[t * sizes_.state + i]);
      const Number dstate = math::mul_add(dy, c(at, i), column_.get(scratch_.dstate[i]));
      column_.add(at, i, dstate * token.added, dy * state);
      dadded = math::mul_add(dstate, b(at, i), dadded);
      const Number before = dstate * column_.get(scratch_.decays[t * sizes_.state + i]);
      const Number dlog = before * state_before(t, i);  // of the decay's logarithm, -step * rate
      dstep = dstep - dlog * column_.get(scratch_.rates[i]);
      column_.set(column_.get(scratch_.drates[i]) - dlog * token.step, scratch_.drates[i]);
      column_.set(before, scratch_.dstate[i]);
    }
    column_.end_token(at);
    column_.put(dadded * token.step, stream_.dx + row);
    dstep = math::mul_add(dadded, column_.take(stream_.x + row), dstep);
    column_.put(dstep * slope(column_.take(stream_.steps + row)), stream_.dsteps + row);
  }

  // Returns the slope of the softplus, 1 / (1 + exp(-raw)), without overflow on either side.
  [[nodiscard]] SPILLWAY_SCAN_FUNCTION static Number slope(Number raw) {
    const Number small = math::exp(-math::abs(raw));
    return math::select(raw < 0, small, 1) / (1 + small);
  }

  Column& column_;
  const ScanSizes& sizes_;
  const ScanStream<T>& stream_;
  const ScanScratch& scratch_;
};

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
