#include "plan/budget.h"

#include "base/error.h"

namespace spillway {

std::string_view name_of(Treatment treatment) {
  switch (treatment) {
    case Treatment::kKeep:
      return "keep";
    case Treatment::kRecompute:
      return "recompute";
    case Treatment::kHost:
      return "host";
    case Treatment::kDisk:
      return "disk";
  }
  report_bug(__FILE__, __LINE__, "treatment", "unknown");
}

}  // namespace spillway
