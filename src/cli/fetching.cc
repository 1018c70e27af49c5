#include "cli/fetching.h"

#include <memory>

#include "base/clock.h"
#include "report/progress.h"

namespace spillway {

hub::Lookup fetching_lookup() {
  // The bar is there from the first byte to the last of what this lookup finds.
  const auto progress = std::make_shared<std::unique_ptr<Progress>>();
  return {.may_fetch = true, .on_progress = [progress](int64_t done, int64_t total) {
            if (!*progress) *progress = std::make_unique<Progress>(Progress::Options{});
            (*progress)->load({.what = "fetched", .bytes = done, .total_bytes = total}, now_seconds());
          }};
}

}  // namespace spillway
