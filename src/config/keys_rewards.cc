#include "config/keys.h"

namespace spillway::config {

std::vector<KeySection> reward_sections() {
  KeySection section{"Rewards", {}};
  section.keys = {
      key<&Spelled::reward_funcs>("trl.reward_funcs",
                                  "what scores completions: functions that TRL brings, module.function, folders of "
                                  "reward models, {exec: program}; docs/rewards.md")
          .alias({"reward_funcs"})
          .path(),
      key<&Spelled::reward_model_name_or_path>("trl.reward_model_name_or_path",
                                               "TRL's: a folder of a reward model, before those of reward_funcs")
          .alias({"reward_model_name_or_path"})
          .path(),
      key<&Spelled::reward_weights>("trl.reward_weights", "what the reward of each is multiplied by; left out: 1")
          .alias({"reward_weights"}),
      key<&Spelled::reward_timeout>("trl.reward_timeout", "seconds that a call of one may take")
          .alias({"reward_timeout"})
          .above(0)
          .most(1e6),
      key<&Spelled::reward_python>("trl.reward_python",
                                   "the interpreter of Python functions: a name on PATH, or a path")
          .alias({"reward_python"})
          .path(),
  };
  return {section};
}

}  // namespace spillway::config
