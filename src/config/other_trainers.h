// Files of trainers whose configs are not read here (LLaMA-Factory, torchtune, mlx-lm, accelerate, Unsloth's
// notebooks): they are recognised as such, and their keys are shown beside ours. The table is data,
// config/other_trainers.yml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/values.h"
#include "config/verdict.h"
#include "config/yaml.h"

namespace spillway::config {

// A key of another trainer, and what to write here.
struct OtherKey {
  std::string_view theirs;  // with dots for nested keys; a `*` at the end stands for any rest
  std::string_view ours;    // empty: no key
  std::string_view how;     // the value, or why there is no key; may be empty
};

struct OtherTrainer {
  std::string_view name;
  std::vector<std::string_view> signs;  // keys of which one is enough; with `*.` before it at any depth
  std::vector<OtherKey> keys;
};

// The trainers of the table, in its order. Made once; any thread.
[[nodiscard]] const std::vector<OtherTrainer>& other_trainers();

// Returns the one line that says which other trainer's config `root` is and what its keys are called here; empty where
// it is no other's. Every key of such a file gets its verdict.
[[nodiscard]] std::string recognise_trainer(const YamlNode& root, const KeyPlace& place, Verdicts& verdicts);

// Throws InputError where the text is no config but a notebook or a script in Python.
void refuse_script(std::string_view text, std::string_view name);

}  // namespace spillway::config
