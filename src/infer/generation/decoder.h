// Decodes several sequences together over one set of key-value caches. Sequences join and leave between token
// positions. The tokens of each depend only on its prompt, sampling and rules, bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "infer/generation/cache_rows.h"
#include "infer/generation/generate.h"
#include "infer/generation/penalties.h"
#include "text/grammar/token_grammar.h"

namespace spillway::infer {

// The options of a sequence in addition to its sampling.
struct SequenceRules {
  std::vector<int32_t> stop_ids;
  Penalties penalties = {};
  bool keeps_stop = false;  // the token that stopped belongs to the answer
  bool logprobs = false;
  double logprob_temperature = 1;
  int64_t top_logprobs = 0;      // of so many of the likeliest tokens, beside each that has a log-probability
  bool prompt_logprobs = false;  // of the prompt's tokens, but for its first one, too
  // The answer is a text of its grammar, and stops where that may end. Of one sequence; none: any text.
  std::shared_ptr<text::TokenMatcher> matcher = {};
};

using SequenceId = int64_t;

// The next token of a sequence.
struct Chosen {
  SequenceId sequence = 0;
  int32_t id = 0;
  float logprob = 0;  // if wanted, under the model's own distribution, without penalty and filters
  std::vector<TokenLogprob> top = {};
  bool is_of_prompt = false;  // which was not chosen: it is here for its log-probability
  bool stopped = false;       // by this token
  bool shown = true;          // the token belongs to the answer
  bool is_last = false;       // it stopped, or max_new_tokens are there
};

// Not thread-safe: belongs to one thread.
class Decoder {
 public:
  explicit Decoder(const GenerationPrograms& programs);

  // Adds a sequence. Reserves cache rows for prompt.sequence_tokens(), or for `reserved_tokens` if that is more (for
  // renew()). Returns its name, or nothing if there is no room now. Penalties are those of `rules`. REQUIRES: the
  // prompt is not empty, and its ids are in the vocabulary.
  [[nodiscard]] std::optional<SequenceId> join(const Prompt& prompt, SequenceRules rules, int64_t reserved_tokens = 0);
  // Gives a sequence another prompt. The common beginning of both prompts is not read again if it was read as a prompt,
  // and, of a model with states that have a row for each sequence, if nothing else was read since.
  // Tokens that were decoded are read again, so that the results are those of a sequence that has just joined.
  // REQUIRES: as join(); the sequence has rows for all its tokens.
  void renew(SequenceId sequence, const Prompt& prompt, SequenceRules rules);
  // Removes a sequence and frees its rows.
  void leave(SequenceId sequence);

  // Reads the prompts in the order of joining, in at most `runs` runs of the program: all tokens but the last of each,
  // which is the first that decode() reads. If several prompts begin alike, the first sequence reads that part and the
  // others copy it; of a model with states that have a row for each sequence, if that part is the whole prompt of the
  // first. Prompts whose log-probabilities are wanted are left to decode().
  void read_prompts(int64_t runs = std::numeric_limits<int64_t>::max());
  // Returns one token for every sequence whose prompt is read, in the order of joining. A sequence that got its last
  // token must leave or be renewed before the next call. A prompt whose log-probabilities are wanted is read here: the
  // result has its next tokens instead of one chosen token, as many as max_sequences() leaves room for.
  // Throws InputError for logits that are no numbers.
  [[nodiscard]] std::vector<Chosen> decode();

  [[nodiscard]] int64_t sequences() const { return std::ssize(sequences_); }
  // The largest number of sequences at once, if the cache has rows for them.
  [[nodiscard]] int64_t max_sequences() const { return programs_.decode.graph.tokens(); }

 private:
  struct Sequence {
    SequenceId name;
    int64_t first_row, reserved_tokens;
    int64_t slot;  // its row in states that have a row for each sequence
    Sampling sampling;
    SequenceRules rules;
    std::vector<int32_t> ids;  // the prompt and what was chosen
    int64_t prompt_tokens;
    int64_t cached = 0;  // tokens whose keys are in the caches
    RandomStream random;

    // Returns how many prompt tokens read_prompts() has read. Tokens that decode() reads do not count: their bits
    // differ.
    [[nodiscard]] int64_t read() const { return rules.prompt_logprobs ? 0 : std::min(cached, prompt_tokens - 1); }
    [[nodiscard]] int64_t unread() const { return prompt_tokens - 1 - cached; }
  };
  struct Shared {
    const Sequence* with = nullptr;
    int64_t tokens = 0;
  };
  // The next tokens of a sequence.
  struct Piece {
    Sequence* sequence;
    int64_t tokens;
  };
  // A token whose logits the decoding program computes.
  struct Row {
    Sequence* sequence;
    std::optional<int32_t> next;  // of the prompt: it is not to be chosen
    float uniform = 0;
  };

  // Returns true if a state of the model has a row for each sequence: what all its tokens so far have made of it. Such
  // a row cannot be cut back to fewer tokens.
  [[nodiscard]] bool has_sequence_states() const { return programs_.prompt.model.slots != kNone; }
  [[nodiscard]] int64_t free_slot() const;
  [[nodiscard]] Sequence& find(SequenceId sequence);
  [[nodiscard]] int64_t shared_tokens(const Sequence& sequence, const Sequence& earlier) const;
  [[nodiscard]] Shared shared_with_earlier(const Sequence& sequence) const;
  void copy_rows(const Sequence& from, Sequence& to, int64_t tokens);
  void copy_what_is_read();
  static void run(const GenerationPrograms::One& program, std::span<const Piece> pieces);
  [[nodiscard]] static bool may_stop(const Sequence& sequence);
  [[nodiscard]] static bool is_chosen_by_program(const Row& row);
  [[nodiscard]] static bool needs_logits(const Row& row);
  [[nodiscard]] std::vector<Row> next_rows();
  void ask_for_choices(std::span<const Row> rows);
  [[nodiscard]] std::vector<Choice> choices(std::span<const Row> rows);
  void look_at_logits(std::span<const Row> rows, std::span<Choice> choices);
  static void look_at_logits(const Row& row, std::span<const float> logits, Choice& choice);
  static Chosen take(const Row& row, Choice choice);
  static std::span<const float> scores_of(const Sequence& sequence, std::span<const float> logits,
                                          std::vector<float>& changed);

  GenerationPrograms programs_;
  CacheRows rows_;
  std::vector<Sequence> sequences_;
  SequenceId next_ = 0;
};

}  // namespace spillway::infer
