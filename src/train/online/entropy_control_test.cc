#include "train/online/entropy_control.h"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::train;

namespace {

config::OnlineSettings settings(bool is_adaptive) {
  config::OnlineSettings online;
  online.entropy_coef = 0.3;
  if (is_adaptive) online.adaptive_entropy = config::AdaptiveEntropy{.delta = 0.125, .target = 0.2, .most = 1};
  return online;
}

}  // namespace

TEST_CASE("a weight that follows the entropy goes on from a checkpoint, and one that does not is the config's") {
  EntropyControl adapted(settings(true));
  adapted.add({.sum = 1, .tokens = 10});  // an entropy of 0.1, below the target
  adapted.end_step();
  EntropyControl on(settings(true)), off(settings(false));
  for (EntropyControl* control : {&on, &off}) control->restore(adapted.state());
  CHECK(on.coef() == 0.425);
  CHECK(on.applied() == 0.425);
  CHECK(off.coef() == 0.3);
  CHECK(off.applied() == 0.3);
}
