#include "train/generation/generate.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"
#include "train/generation/cache_rows.h"

namespace spillway::train {
namespace {

// A prompt with rows in the caches.
struct Sequence {
  size_t prompt;
  int64_t first_row;
  int64_t cached = 0;        // tokens whose keys are in the caches
  std::vector<int32_t> ids;  // the prompt and what was chosen
  RandomStream random;
};

// The next tokens of a sequence.
struct Piece {
  Sequence* sequence;
  int64_t tokens;
};

void take_in(Executor& executor, const CachedModelGraph& model, std::span<const Piece> pieces) {
  const auto column = [&](ValueId id) { return executor.home(id).as<int32_t>(); };
  int32_t *ids = column(model.ids), *positions = column(model.positions), *first = column(model.first),
          *own = column(model.own);
  int64_t count = 0;
  for (const Piece& piece : pieces) {
    Sequence& sequence = *piece.sequence;
    for (int64_t i = 0; i < piece.tokens; ++i, ++count, ++sequence.cached) {
      ids[count] = sequence.ids[static_cast<size_t>(sequence.cached)];
      positions[count] = narrow<int32_t>(sequence.cached);
      first[count] = narrow<int32_t>(sequence.first_row);
      own[count] = narrow<int32_t>(sequence.first_row + sequence.cached);
    }
  }
  executor.set_rows(kTokenAxis, count);
  executor.run(0);
}

// What the caches have of one sequence becomes what they have of another with the same prompt.
void copy_prompt(Executor& executor, const CachedModelGraph& model, int64_t capacity, const Sequence& from,
                 Sequence& to) {
  auto* const source = executor.home(model.first).as<int32_t>();
  auto* const target = executor.home(model.own).as<int32_t>();
  const int64_t tokens = std::ssize(to.ids) - 1;
  while (to.cached < tokens) {
    const int64_t count = std::min(capacity, tokens - to.cached);
    for (int64_t i = 0; i < count; ++i, ++to.cached) {
      source[i] = narrow<int32_t>(from.first_row + to.cached);
      target[i] = narrow<int32_t>(to.first_row + to.cached);
    }
    executor.set_rows(kTokenAxis, count);
    executor.run(model.copy);
  }
}

// One call of generate().
class Batch {
 public:
  Batch(const GenerationPrograms& programs, std::span<const Prompt> prompts, const GenerationOptions& options)
      : programs_(programs),
        prompts_(prompts),
        options_(options),
        rows_(cache_rows(programs.graphs)),
        answers_(prompts.size()),
        done_(prompts.size()) {}

  std::vector<Generated> answer() {
    while (answered_ < prompts_.size()) {
      admit();
      feed_prompts();
      decode();
      choose();
      finish();
    }
    return std::move(answers_);
  }

 private:
  static int64_t cache_rows(const GenerationGraphs& graphs) {
    const Graph& graph = graphs.decode.graph;
    return graph.value(graph.find("cache.layers.0.key")).type.shape[0];
  }

  // Prompts get rows in their order, so that none waits for ever.
  void admit() {
    while (next_ < prompts_.size() && std::ssize(sequences_) < programs_.graphs.decode.graph.tokens()) {
      const Prompt& prompt = prompts_[next_];
      SPILLWAY_CHECK(!prompt.ids.empty(), "an empty prompt");
      const std::optional<int64_t> first = rows_.take(prompt.sequence_tokens());
      SPILLWAY_CHECK(first || !sequences_.empty(), "a sequence of {} tokens does not fit", prompt.sequence_tokens());
      if (!first) return;
      sequences_.push_back(
          {.prompt = next_++, .first_row = *first, .ids = prompt.ids, .random = RandomStream(prompt.sampling.seed, 0)});
    }
  }

  // Another sequence of the same prompt, before this one and so with its keys in the caches, once prompts are fed.
  [[nodiscard]] const Sequence* earlier_twin(const Sequence& sequence) const {
    const std::vector<int32_t>& ids = prompts_[sequence.prompt].ids;
    for (const Sequence* other = sequences_.data(); other != &sequence; ++other) {
      if (prompts_[other->prompt].ids == ids) return other;
    }
    return nullptr;
  }

  // All tokens of prompts but the last of each, which is the first to be decoded. A prompt that several sequences have
  // is read once.
  void feed_prompts() {
    const int64_t capacity = programs_.graphs.prompt.graph.tokens();
    std::vector<Piece> pieces;
    std::vector<std::pair<const Sequence*, Sequence*>> copies;
    int64_t count = 0;
    const auto flush = [&] {
      if (count > 0) take_in(programs_.prompt, programs_.graphs.prompt.model, pieces);
      pieces.clear();
      count = 0;
    };
    for (Sequence& sequence : sequences_) {
      int64_t left = std::ssize(sequence.ids) - 1 - sequence.cached;
      if (left == 0) continue;
      if (const Sequence* twin = earlier_twin(sequence)) {
        copies.emplace_back(twin, &sequence);
        continue;
      }
      while (left > 0) {
        const int64_t tokens = std::min(left, capacity - count);
        pieces.push_back({&sequence, tokens});
        count += tokens;
        left -= tokens;
        if (count == capacity) flush();
      }
    }
    flush();
    for (const auto& [from, to] : copies)
      copy_prompt(programs_.prompt, programs_.graphs.prompt.model, capacity, *from, *to);
  }

  void decode() {
    std::vector<Piece> pieces;
    for (Sequence& sequence : sequences_) pieces.push_back({&sequence, 1});
    take_in(programs_.decode, programs_.graphs.decode.model, pieces);
  }

  // Each sequence's next token, from the logits of its row.
  void choose() {
    const TensorView logits = programs_.decode.result(0);
    const int64_t vocabulary = logits.shape[1];
    std::vector<std::exception_ptr> errors(sequences_.size());
    programs_.pool.parallel_for(std::ssize(sequences_), 1, [&](int64_t begin, int64_t end, int) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        try {
          choose_for(sequences_[i],
                     {logits.as<float>() + static_cast<int64_t>(i) * vocabulary, static_cast<size_t>(vocabulary)});
        } catch (const std::bad_alloc&) {  // not across the pool's threads
          errors[i] = std::current_exception();
        }
      }
    });
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  void choose_for(Sequence& sequence, std::span<const float> logits) {
    Generated& answer = answers_[sequence.prompt];
    const Sampling& sampling = prompts_[sequence.prompt].sampling;
    std::vector<float> changed;
    const std::span<const float> scores = scores_of(sequence, logits, changed);
    std::optional<TokenDistribution> plain;
    if (options_.logprobs) plain.emplace(logits, options_.logprob_temperature);
    // Often the distribution to draw from is the one that is asked for, and a vocabulary is long.
    const bool is_drawn_from = plain && scores.data() == logits.data() && sampling.draws_from_all() &&
                               sampling.temperature == options_.logprob_temperature;
    const double uniform = sequence.random.uniform();
    const int32_t id = is_drawn_from ? plain->draw(uniform) : sample(scores, sampling, uniform);
    answer.stopped = std::find(options_.stop_ids.begin(), options_.stop_ids.end(), id) != options_.stop_ids.end();
    if (answer.stopped && !options_.keeps_stop) return;
    sequence.ids.push_back(id);
    answer.ids.push_back(id);
    if (plain) answer.logprobs.push_back(plain->log_probability(id));
  }

  // The logits, or in `changed` what penalty and least length make of them.
  std::span<const float> scores_of(const Sequence& sequence, std::span<const float> logits,
                                   std::vector<float>& changed) const {
    const bool may_stop =
        std::ssize(answers_[sequence.prompt].ids) >= prompts_[sequence.prompt].sampling.min_new_tokens;
    if (options_.repetition_penalty == 1 && may_stop) return logits;
    changed.assign(logits.begin(), logits.end());
    if (options_.repetition_penalty != 1) penalise_repetition(changed, sequence.ids, options_.repetition_penalty);
    if (!may_stop) {
      for (const int32_t id : options_.stop_ids) {
        if (id < std::ssize(changed)) changed[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
      }
    }
    return changed;
  }

  // Hands out what was chosen, and the rows of sequences that have ended.
  void finish() {
    for (const Sequence& sequence : sequences_) {
      const Generated& answer = answers_[sequence.prompt];
      const bool is_shown = !answer.stopped || options_.keeps_stop;
      if (is_shown && options_.on_token) options_.on_token(sequence.prompt, answer.ids.back());
    }
    std::erase_if(sequences_, [&](const Sequence& sequence) {
      const Prompt& prompt = prompts_[sequence.prompt];
      const Generated& answer = answers_[sequence.prompt];
      if (!answer.stopped && std::ssize(answer.ids) < prompt.sampling.max_new_tokens) return false;
      rows_.give_back(sequence.first_row, prompt.sequence_tokens());
      done_[sequence.prompt] = true;
      return true;
    });
    for (; answered_ < prompts_.size() && done_[answered_]; ++answered_) {
      if (options_.on_answer) options_.on_answer(answered_, answers_[answered_]);
    }
  }

  const GenerationPrograms& programs_;
  std::span<const Prompt> prompts_;
  const GenerationOptions& options_;
  CacheRows rows_;
  std::vector<Sequence> sequences_;
  std::vector<Generated> answers_;
  std::vector<bool> done_;
  size_t next_ = 0, answered_ = 0;
};

}  // namespace

std::vector<Generated> generate(const GenerationPrograms& programs, std::span<const Prompt> prompts,
                                const GenerationOptions& options) {
  return Batch(programs, prompts, options).answer();
}

}  // namespace spillway::train
