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

Machine machine_elsewhere(const ConfigArguments& arguments) {
  if (!arguments.has("--gpu")) return read_machine(arguments.value("--machine"));
  if (arguments.has("--machine"))
    throw input_error("--gpu", "expected one machine, got --machine too; remove one of them");
  return machine_by_name(arguments.value("--gpu"), "--gpu");
}

}  // namespace spillway
