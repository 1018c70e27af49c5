#include "infer/generation/decoder.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "infer/logits_error.h"

namespace spillway::infer {
namespace {

// Bars the tokens that the grammar does not go on with. An answer stops where it is a whole text, and where no token
// follows.
void hold_to(const text::TokenMatcher::Next& next, std::span<const int32_t> stop_ids, bool may_stop,
             std::span<float> scores) {
  const bool stops = next.tokens->is_empty() || (next.may_end && may_stop);
  for (int64_t id = 0; id < std::ssize(scores); ++id) {
    const bool is_stop = std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end();
    if (is_stop ? !stops : !next.tokens->contains(id)) nth(scores, id) = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace

Decoder::Decoder(const GenerationPrograms& programs) : programs_(programs), rows_(programs.decode.model.rows) {}

std::optional<SequenceId> Decoder::join(const Prompt& prompt, SequenceRules rules, int64_t reserved_tokens) {
  SPILLWAY_CHECK(!prompt.ids.empty(), "an empty prompt");
  if (sequences() == max_sequences()) return std::nullopt;
  reserved_tokens = std::max(reserved_tokens, prompt.sequence_tokens());
  const std::optional<int64_t> first = rows_.take(reserved_tokens);
  if (!first) return std::nullopt;
  sequences_.push_back({.name = next_,
                        .first_row = *first,
                        .reserved_tokens = reserved_tokens,
                        .slot = free_slot(),
                        .sampling = prompt.sampling,
                        .rules = std::move(rules),
                        .ids = prompt.ids,
                        .prompt_tokens = std::ssize(prompt.ids),
                        .random = RandomStream(prompt.sampling.seed, 0)});
  return next_++;
}

int64_t Decoder::free_slot() const {
  int64_t slot = 0;
  const auto is_taken = [&](const Sequence& sequence) { return sequence.slot == slot; };
  while (std::any_of(sequences_.begin(), sequences_.end(), is_taken)) ++slot;
  return slot;
}

void Decoder::renew(SequenceId name, const Prompt& prompt, SequenceRules rules) {
  SPILLWAY_CHECK(!prompt.ids.empty(), "an empty prompt");
  Sequence& sequence = find(name);
  SPILLWAY_CHECK(prompt.sequence_tokens() <= sequence.reserved_tokens, "{} tokens in place of {}",
                 prompt.sequence_tokens(), sequence.reserved_tokens);
  const auto differing = std::mismatch(sequence.ids.begin(), sequence.ids.end(), prompt.ids.begin(), prompt.ids.end());
  const int64_t common = differing.first - sequence.ids.begin();
  const int64_t kept = std::min({common, sequence.read(), std::ssize(prompt.ids) - 1});
  sequence.cached = has_sequence_states() && kept < sequence.cached ? 0 : kept;
  sequence.sampling = prompt.sampling;
  sequence.rules = std::move(rules);
  sequence.ids = prompt.ids;
  sequence.prompt_tokens = std::ssize(prompt.ids);
  sequence.random = RandomStream(prompt.sampling.seed, 0);
}

void Decoder::leave(SequenceId name) {
  const Sequence& sequence = find(name);
  rows_.give_back(sequence.first_row, sequence.reserved_tokens);
  sequences_.erase(sequences_.begin() + (&sequence - sequences_.data()));
}

Decoder::Sequence& Decoder::find(SequenceId name) {
  const auto found = std::find_if(sequences_.begin(), sequences_.end(),
                                  [&](const Sequence& sequence) { return sequence.name == name; });
  SPILLWAY_CHECK(found != sequences_.end(), "no sequence {}", name);
  return *found;
}

void Decoder::run(const GenerationPrograms::One& program, std::span<const Piece> pieces) {
  const auto& [graph, model, executor] = program;
  const auto column = [&program](ValueId id) { return program.executor.home(id).as<int32_t>(); };
  int32_t *ids = column(model.ids), *positions = column(model.positions), *first = column(model.first),
          *own = column(model.own);
  int32_t* const slots = model.slots == kNone ? nullptr : column(model.slots);
  int64_t count = 0;
  for (const Piece& piece : pieces) {
    Sequence& sequence = *piece.sequence;
    for (int64_t i = 0; i < piece.tokens; ++i, ++count, ++sequence.cached) {
      ids[count] = nth(sequence.ids, sequence.cached);
      positions[count] = narrow<int32_t>(sequence.cached);
      first[count] = narrow<int32_t>(sequence.first_row);
      own[count] = narrow<int32_t>(sequence.first_row + sequence.cached);
      if (slots != nullptr) slots[count] = narrow<int32_t>(sequence.slot);
    }
  }
  executor.set_rows(kTokenAxis, count);
  executor.run(0);
}

// Returns the number of tokens that `sequence` need not read, since it begins with the same as `earlier`. A state with
// a row for each sequence must stand where these end, or be about to.
int64_t Decoder::shared_tokens(const Sequence& sequence, const Sequence& earlier) const {
  const auto end = [](const Sequence& one) { return one.ids.begin() + one.prompt_tokens - 1; };
  const auto differing = std::mismatch(sequence.ids.begin(), end(sequence), earlier.ids.begin(), end(earlier));
  const int64_t tokens = differing.first - sequence.ids.begin();
  const bool is_whole = tokens == earlier.prompt_tokens - 1 && earlier.cached <= tokens;
  return has_sequence_states() && !is_whole ? 0 : tokens;
}

// Returns the earlier sequence with which this one shares the longest beginning, among those whose prompts
// read_prompts() reads; none if that is too short to be worth waiting for.
Decoder::Shared Decoder::shared_with_earlier(const Sequence& sequence) const {
  constexpr int64_t kWorthACopy = 32;
  Shared most;
  for (const Sequence* earlier = sequences_.data(); earlier != &sequence; ++earlier) {
    if (earlier->rules.prompt_logprobs) continue;
    const int64_t tokens = shared_tokens(sequence, *earlier);
    if (tokens > most.tokens) most = {earlier, tokens};
  }
  const int64_t saved = most.tokens - sequence.cached;
  const bool is_worth_it = saved >= kWorthACopy || (saved > 0 && saved == sequence.unread());
  return is_worth_it ? most : Shared{};
}

// Copies the cache rows of the first tokens of one sequence to another that begins with the same tokens: a row depends
// only on the tokens up to its own. A state of the whole sequence is that of these tokens.
void Decoder::copy_rows(const Sequence& from, Sequence& to, int64_t tokens) {
  const auto& [graph, model, executor] = programs_.prompt;
  const int64_t capacity = graph.tokens();
  auto* const source = executor.home(model.first).as<int32_t>();
  auto* const target = executor.home(model.own).as<int32_t>();
  while (to.cached < tokens) {
    const int64_t count = std::min(capacity, tokens - to.cached);
    for (int64_t i = 0; i < count; ++i, ++to.cached) {
      source[i] = narrow<int32_t>(from.first_row + to.cached);
      target[i] = narrow<int32_t>(to.first_row + to.cached);
    }
    executor.set_rows(kTokenAxis, count);
    executor.run(model.copy);
  }
  if (!has_sequence_states()) return;
  executor.home(model.copied_slots).as<int32_t>()[0] = narrow<int32_t>(from.slot);
  executor.home(model.slots).as<int32_t>()[0] = narrow<int32_t>(to.slot);
  executor.set_rows(kTokenAxis, 1);
  executor.run(model.copy_sequences);
}

void Decoder::copy_what_is_read() {
  for (Sequence& sequence : sequences_) {
    if (sequence.unread() <= 0 || sequence.rules.prompt_logprobs) continue;
    const Shared shared = shared_with_earlier(sequence);
    if (shared.with != nullptr && shared.with->read() >= shared.tokens)
      copy_rows(*shared.with, sequence, shared.tokens);
  }
}

void Decoder::read_prompts(int64_t runs) {
  const int64_t capacity = programs_.prompt.graph.tokens();
  copy_what_is_read();
  for (; runs > 0; --runs) {
    std::vector<Piece> pieces;
    int64_t room = capacity;
    for (Sequence& sequence : sequences_) {
      const int64_t tokens = std::min(sequence.unread(), room);
      if (tokens <= 0 || sequence.rules.prompt_logprobs) continue;
      // The tokens that an earlier sequence is about to read are copied from it later.
      if (shared_with_earlier(sequence).with != nullptr) continue;
      pieces.push_back({&sequence, tokens});
      room -= tokens;
    }
    if (!programs_.have_work(!pieces.empty())) return;
    run(programs_.prompt, pieces);
    copy_what_is_read();
  }
}

std::vector<Chosen> Decoder::decode() {
  const std::vector<Row> rows = next_rows();
  if (!programs_.have_work(!rows.empty())) return {};
  std::vector<Piece> pieces;
  for (const Row& row : rows) pieces.push_back({row.sequence, 1});
  ask_for_choices(rows);
  run(programs_.decode, pieces);
  std::vector<Choice> choices = this->choices(rows);
  std::vector<Chosen> chosen;
  for (size_t i = 0; i < rows.size(); ++i) chosen.push_back(take(rows[i], std::move(choices[i])));
  return chosen;
}

std::vector<Decoder::Row> Decoder::next_rows() {
  std::vector<Row> rows;
  int64_t room = max_sequences() - sequences();
  for (Sequence& sequence : sequences_) {
    const int64_t unread = sequence.unread();
    if (unread <= 0) rows.push_back({&sequence, std::nullopt, sequence.random.uniform()});
    if (unread <= 0 || !sequence.rules.prompt_logprobs) continue;
    const int64_t tokens = std::min(unread, 1 + room);
    room -= tokens - 1;
    for (int64_t i = 1; i <= tokens; ++i) rows.push_back({&sequence, nth(sequence.ids, sequence.cached + i)});
  }
  return rows;
}

bool Decoder::may_stop(const Sequence& sequence) {
  return std::ssize(sequence.ids) - sequence.prompt_tokens >= sequence.sampling.min_new_tokens;
}

bool Decoder::is_chosen_by_program(const Row& row) {
  const Sequence& sequence = *row.sequence;
  return !row.next && sequence.sampling.is_of_program() && !sequence.rules.penalties.change_logits() &&
         !sequence.rules.matcher && (may_stop(sequence) || std::ssize(sequence.rules.stop_ids) <= kMaxBarred);
}

bool Decoder::needs_logits(const Row& row) {
  return !is_chosen_by_program(row) || row.sequence->rules.top_logprobs > 0;
}

void Decoder::ask_for_choices(std::span<const Row> rows) {
  const TokenChoice& choice = programs_.choice;
  const auto column = [&](ValueId id) { return programs_.decode.executor.home(id).as<float>(); };
  float* const factors = column(choice.inverse_temperature);
  float* const logprob_factors = column(choice.logprob_inverse_temperature);
  float* const uniforms = column(choice.uniform);
  auto* const barred = programs_.decode.executor.home(choice.barred).as<int32_t>();
  std::fill_n(barred, std::ssize(rows) * kMaxBarred, -1);
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const Row& row = nth(rows, i);
    const Sequence& sequence = *row.sequence;
    constexpr float kNotAskedFor = -1;
    factors[i] = is_chosen_by_program(row) ? inverse_temperature(sequence.sampling.temperature) : kNotAskedFor;
    logprob_factors[i] = sequence.rules.logprobs ? inverse_temperature(sequence.rules.logprob_temperature) : 0;
    uniforms[i] = row.uniform;
    if (is_chosen_by_program(row) && !may_stop(sequence)) {
      const std::vector<int32_t>& stops = sequence.rules.stop_ids;
      std::copy(stops.begin(), stops.end(), barred + i * kMaxBarred);
    }
  }
}

std::vector<Choice> Decoder::choices(std::span<const Row> rows) {
  const auto* const ids = programs_.decode.executor.result(kIdsResult).as<int32_t>();
  const auto* const logprobs = programs_.decode.executor.result(kLogprobsResult).as<float>();
  std::vector<Choice> choices;
  for (size_t i = 0; i < rows.size(); ++i) choices.push_back({ids[i], logprobs[i]});
  if (std::any_of(rows.begin(), rows.end(), needs_logits)) look_at_logits(rows, choices);
  if (std::any_of(choices.begin(), choices.end(), [](const Choice& one) { return std::isnan(one.logprob); }))
    throw logits_are_nan();
  return choices;
}

// Chooses the tokens that the program does not choose, and computes the log-probabilities that it does not return.
void Decoder::look_at_logits(std::span<const Row> rows, std::span<Choice> choices) {
  const TensorView all = programs_.decode.executor.result(kLogitsResult);
  const int64_t vocabulary = all.shape[1];
  std::vector<std::exception_ptr> errors(rows.size());
  programs_.pool.parallel_for(std::ssize(rows), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      if (!needs_logits(nth(rows, i))) continue;
      try {
        look_at_logits(nth(rows, i), span_of(all.as<float>() + i * vocabulary, vocabulary), nth(choices, i));
      } catch (const std::bad_alloc&) {  // not across the pool's threads
        nth(errors, i) = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void Decoder::look_at_logits(const Row& row, std::span<const float> logits, Choice& choice) {
  const Sequence& sequence = *row.sequence;
  const SequenceRules& rules = sequence.rules;
  if (row.next) {
    choice = {*row.next, log_probability(logits, rules.logprob_temperature, *row.next)};
  } else if (!is_chosen_by_program(row)) {
    std::vector<float> changed;
    const std::span<const float> scores = scores_of(sequence, logits, changed);
    choice = choose_token(logits, scores, sequence.sampling,
                          rules.logprobs ? std::optional(rules.logprob_temperature) : std::nullopt, row.uniform);
    // Rounding may leave a draw behind the last token that has a share.
    if (rules.matcher && std::isinf(nth(scores, choice.id))) choice.id = sample(scores, {}, 0);
    if (std::isnan(nth(logits, choice.id))) choice.logprob = nth(logits, choice.id);
  }
  if (rules.top_logprobs > 0) choice.top = likeliest_tokens(logits, rules.logprob_temperature, rules.top_logprobs);
}

Chosen Decoder::take(const Row& row, Choice choice) {
  Sequence& sequence = *row.sequence;
  const SequenceRules& rules = sequence.rules;
  Chosen chosen{.sequence = sequence.name, .id = choice.id, .logprob = choice.logprob, .top = std::move(choice.top)};
  chosen.is_of_prompt = row.next.has_value();
  if (chosen.is_of_prompt) return chosen;
  chosen.stopped = std::find(rules.stop_ids.begin(), rules.stop_ids.end(), chosen.id) != rules.stop_ids.end() ||
                   (rules.matcher && !rules.matcher->add(chosen.id));
  chosen.shown = !chosen.stopped || rules.keeps_stop;
  if (chosen.shown) sequence.ids.push_back(chosen.id);
  chosen.is_last =
      chosen.stopped || std::ssize(sequence.ids) >= sequence.prompt_tokens + sequence.sampling.max_new_tokens;
  return chosen;
}

// Returns the logits, or in `changed` the logits with penalties, the minimum length and the grammar applied.
std::span<const float> Decoder::scores_of(const Sequence& sequence, std::span<const float> logits,
                                          std::vector<float>& changed) {
  const SequenceRules& rules = sequence.rules;
  if (!rules.penalties.change_logits() && may_stop(sequence) && !rules.matcher) return logits;
  changed.assign(logits.begin(), logits.end());
  penalise(changed, sequence.ids, sequence.prompt_tokens, rules.penalties);
  if (rules.matcher) {
    hold_to(rules.matcher->next(), rules.stop_ids, may_stop(sequence), changed);
  } else if (!may_stop(sequence)) {
    for (const int32_t id : rules.stop_ids) {
      if (id < std::ssize(changed)) nth(changed, id) = -std::numeric_limits<float>::infinity();
    }
  }
  return changed;
}

}  // namespace spillway::infer
