// Prints the results of a trained model for the moving-shapes example's prompts, one line per clip. Takes seconds,
// while training takes minutes.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "tests/support/shape_score.h"

using namespace spillway::testing;

namespace {

int print_score(const char* example, const char* model, uint64_t seeds, double guidance) {
  std::vector<uint64_t> numbers;
  for (uint64_t seed = 0; seed < seeds; ++seed) numbers.push_back(seed);
  const std::vector<ScoredClip> clips = score_moving_shapes(example, model, numbers, guidance);
  int64_t colours = 0, directions = 0;
  for (const ScoredClip& clip : clips) {
    colours += clip.has_colour ? 1 : 0;
    directions += clip.has_direction ? 1 : 0;
    fmt::print("{}, noise {}: colour {}, direction {}\n", clip.prompt, clip.seed, clip.has_colour ? "yes" : "no",
               clip.has_direction ? "yes" : "no");
  }
  fmt::print("of {} clips {} have the colour that was asked for, {} the direction\n", clips.size(), colours,
             directions);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    fmt::print(stderr, "usage: {} EXAMPLE MODEL [SEEDS [GUIDANCE]]\n", argv[0]);
    return 2;
  }
  try {
    return print_score(argv[1], argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1,
                       argc > 4 ? std::strtod(argv[4], nullptr) : 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
