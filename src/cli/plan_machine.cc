#include "cli/plan_machine.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "job/fit/catalogue.h"

namespace spillway {
namespace {

Machine read_machine(const std::string& path) {
  const nlohmann::json content = parse_json(read_file(path, int64_t{1} << 20), path);
  if (content.is_discarded()) {
    throw input_error(path, "expected JSON, got something else; write the file with `spillway doctor --json`");
  }
  // The output of doctor holds the machine beside its other findings.
  return machine_from_json(content.contains("machine") ? content["machine"] : content, path);
}

}  // namespace

bool is_elsewhere(const ConfigArguments& arguments) { return arguments.has("--machine") || arguments.has("--gpu"); }

Machine machine_elsewhere(const ConfigArguments& arguments, int64_t ranks) {
  if (arguments.has("--gpu") && arguments.has("--machine"))
    throw input_error("--gpu", "expected one machine, got --machine too; remove one of them");
  const bool is_known = arguments.has("--gpu");
  const std::string name = arguments.value(is_known ? "--gpu" : "--machine");
  const Machine host = is_known ? machine_by_name(name, "--gpu") : read_machine(name);
  if (ranks > 1) check_peer_rates(host, ranks, is_known ? fmt::format("--gpu {}", name) : name);
  return share_of_rank(host, ranks);
}

}  // namespace spillway
