#include "infer/generation/generate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "infer/generation/decoder.h"

namespace spillway::infer {
namespace {

// One call of generate().
class Continuations {
 public:
  Continuations(const GenerationPrograms& programs, std::span<const Prompt> prompts, const GenerationOptions& options)
      : programs_(programs),
        decoder_(programs),
        prompts_(prompts),
        options_(options),
        answers_(prompts.size()),
        done_(prompts.size()) {}

  std::vector<Generated> answer() {
    while (programs_.have_work(answered_ < prompts_.size())) {
      admit();
      decoder_.read_prompts();
      for (const Chosen& chosen : decoder_.decode()) take(chosen);
      hand_out();
    }
    return std::move(answers_);
  }

 private:
  // Prompts get cache rows in their order, so that none waits forever. A prompt's index is its sequence's name.
  void admit() {
    for (; next_ < prompts_.size(); ++next_) {
      const Prompt& prompt = prompts_[next_];
      SequenceRules rules{.stop_ids = options_.stop_ids,
                          .penalties = penalties_of(prompt),
                          .keeps_stop = options_.keeps_stop,
                          .logprobs = options_.logprobs,
                          .logprob_temperature = options_.logprob_temperature};
      if (options_.grammar) rules.matcher = std::make_shared<text::TokenMatcher>(options_.grammar);
      const std::optional<SequenceId> name = decoder_.join(prompt, std::move(rules));
      SPILLWAY_CHECK(name || decoder_.sequences() > 0, "a sequence of {} tokens does not fit",
                     prompt.sequence_tokens());
      if (!name) return;
    }
  }

  [[nodiscard]] Penalties penalties_of(const Prompt& prompt) const {
    Penalties penalties = options_.penalties;
    penalties.repetition = prompt.repetition.value_or(penalties.repetition);
    penalties.frequency = prompt.frequency.value_or(penalties.frequency);
    penalties.presence = prompt.presence.value_or(penalties.presence);
    return penalties;
  }

  void take(const Chosen& chosen) {
    const auto prompt = static_cast<size_t>(chosen.sequence);
    Generated& answer = answers_[prompt];
    answer.stopped = chosen.stopped;
    if (chosen.shown) {
      answer.ids.push_back(chosen.id);
      if (options_.logprobs) answer.logprobs.push_back(chosen.logprob);
      if (options_.on_token) options_.on_token(prompt, chosen.id);
      if (options_.ends_with && options_.ends_with(prompt, chosen.id)) answer.stopped = true;
    }
    if (!chosen.is_last && !answer.stopped) return;
    decoder_.leave(chosen.sequence);
    done_[prompt] = true;
  }

  // Answers in the order of prompts.
  void hand_out() {
    for (; answered_ < prompts_.size() && done_[answered_]; ++answered_) {
      if (options_.on_answer) options_.on_answer(answered_, answers_[answered_]);
    }
  }

  const GenerationPrograms& programs_;
  Decoder decoder_;
  std::span<const Prompt> prompts_;
  const GenerationOptions& options_;
  std::vector<Generated> answers_;
  std::vector<bool> done_;
  size_t next_ = 0, answered_ = 0;
};

}  // namespace

std::vector<Generated> generate(const GenerationPrograms& programs, std::span<const Prompt> prompts,
                                const GenerationOptions& options) {
  return Continuations(programs, prompts, options).answer();
}

}  // namespace spillway::infer
