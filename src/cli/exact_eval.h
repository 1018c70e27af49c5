// `spillway eval --exact`: answers questions greedily and compares the answers with targets.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/generation_arguments.h"

namespace spillway {

struct ExactArguments {
  std::string file, out;
  std::vector<std::string> stops;
  int64_t max_new_tokens = 256;  // the harness' own
  std::string extract, fallback = "[invalid]";
  int64_t match = 0;
  bool strips = false;
  std::vector<std::string> ignored;
  bool ignores_case = false, ignores_punctuation = false, ignores_numbers = false;

  // Adds all options except --exact itself.
  void add_to(CommandLine& line);
  // Returns the first of these options that was given, or an empty string.
  [[nodiscard]] std::string given() const;
};

// Answers the questions, prints a table or a JSON document, and writes an object for each item to `arguments.out`, if
// given, as soon as it and all before it are answered. Throws InputError with file and line.
int eval_exact(const ModelArguments& model, const ExactArguments& arguments, bool json);

}  // namespace spillway
