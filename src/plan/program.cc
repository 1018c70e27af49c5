#include "plan/program.h"

#include "base/error.h"

namespace spillway {

std::string_view name_of(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return "device";
    case Tier::kHost:
      return "host";
    case Tier::kDisk:
      return "disk";
    case Tier::kFiles:
      return "files";
  }
  report_bug(__FILE__, __LINE__, "tier", "unknown");
}

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kHostToDevice:
      return "host_to_device";
    case Lane::kDeviceToHost:
      return "device_to_host";
    case Lane::kDiskRead:
      return "disk_read";
    case Lane::kDiskWrite:
      return "disk_write";
    case Lane::kHostCompute:
      return "host_compute";
    case Lane::kPeer:
      return "peer";
  }
  report_bug(__FILE__, __LINE__, "lane", "unknown");
}

bool meets_disk(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::kCopy &&
         (instruction.inputs[0].place.tier == Tier::kDisk || instruction.outputs[0].place.tier == Tier::kDisk);
}

}  // namespace spillway
