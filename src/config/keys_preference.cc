#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection preference_section() {
  KeySection section{"Preferences", {}};
  section.keys = {
      key<&Spelled::rl>("rl", "preference training and reinforcement learning").rows_only(),
      key<&Spelled::reward_model>("reward_model", "training a reward model").rows_only(),
      key<&Spelled::process_reward_model>("process_reward_model", "training a reward model").rows_only(),
      key<&Spelled::max_prompt_length>("max_prompt_length", "a limit of preference rows' prompts")
          .alias({"max_prompt_len"})
          .least(1)
          .or_values({"512"})
          .rows_only(),
  };
  return section;
}

KeySection online_section() {
  KeySection section{"Reinforcement learning", {}};
  section.keys = {
      key<&Spelled::max_completion_length>("max_completion_length", "a limit of completions").least(1).rows_only()};
  return section;
}

}  // namespace

std::vector<KeySection> preference_sections() { return {preference_section(), online_section()}; }

}  // namespace spillway::config
