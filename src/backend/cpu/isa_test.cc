#include "backend/cpu/isa.h"

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include "base/error.h"

namespace spillway::cpu {
namespace {

struct RestoreIsa {
  RestoreIsa() = default;
  ~RestoreIsa() { limit_isa(""); }
  RestoreIsa(RestoreIsa&&) = delete;
};

TEST_CASE("an instruction set of the user's choice is the best that vector operations use") {
  const RestoreIsa restore;
  const int64_t all = hwy::SupportedTargets();
  for (const std::string_view name : supported_isas()) {
    CAPTURE(name);
    limit_isa(name);
    CHECK(isa_limit() == name);
    CHECK(best_isa() == name);
#if defined(__x86_64__)
    const bool may_use_avx512 = name != "portable" && name != "avx2";
    CHECK((hwy::SupportedTargets() & (HWY_AVX2 - 1)) == (may_use_avx512 ? all & (HWY_AVX2 - 1) : 0));
    CHECK((hwy::SupportedTargets() & HWY_AVX2) == (name == "portable" ? 0 : all & HWY_AVX2));
#endif
  }
  limit_isa("");
  CHECK(isa_limit().empty());
  CHECK(hwy::SupportedTargets() == all);
  CHECK(best_isa() == supported_isas().back());
}

TEST_CASE("an instruction set that the CPU does not run is refused with those that it does") {
  CHECK_THROWS_WITH_AS(limit_isa("avx1024"), doctest::Contains("[--isa] expected"), InputError);
  CHECK_THROWS_WITH_AS(limit_isa("avx1024"), doctest::Contains("(portable"), InputError);
  CHECK(isa_limit().empty());
}

}  // namespace
}  // namespace spillway::cpu
