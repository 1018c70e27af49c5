#include "plan/machine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace spillway {
namespace {

// Reads json[key] into `target`, a non-negative number that it can hold.
template <typename T>
void read_number(const nlohmann::json& json, std::string_view key, std::string_view where, T& target) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) {
    throw input_error(where, "expected a number under '{}', got {}; write the file with `spillway doctor --json`", key,
                      found == json.end() ? "nothing" : found->dump());
  }
  const double most = std::min(0x1p62, static_cast<double>(std::numeric_limits<T>::max()));
  const double number = found->template get<double>();
  if (!std::isfinite(number) || number < 0 || number > most) {
    throw input_error(where, "expected '{}' to be between zero and {}, got {}; correct it", key, most, found->dump());
  }
  target = static_cast<T>(number);
}

const nlohmann::json& read_object(const nlohmann::json& json, std::string_view key, std::string_view where) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) {
    throw input_error(where, "expected an object under '{}'; write the file with `spillway doctor --json`", key);
  }
  return *found;
}

void read_operations(const nlohmann::json& json, std::string_view where, Machine& machine) {
  for (const auto& [signature, entry] : read_object(json, "operations", where).items()) {
    if (!entry.is_object()) {
      throw input_error(where, "expected seconds for the operation '{}', got {}; measure anew with `spillway doctor`",
                        signature, entry.type_name());
    }
    Machine::OperationSeconds& seconds = machine.operations[signature];
    read_number(entry, "compute_seconds", where, seconds.compute);
    read_number(entry, "host_seconds", where, seconds.host);
  }
}

void read_algorithms(const nlohmann::json& json, std::string_view where, Machine& machine) {
  for (const auto& [shape, index] : read_object(json, "algorithms", where).items()) {
    if (!index.is_number_integer() || index.get<int64_t>() < 0 || index.get<int64_t>() > 1000)
      throw input_error(where,
                        "expected the number of an algorithm for '{}', got {}; measure anew with `spillway doctor`",
                        shape, index.dump());
    machine.algorithms[shape] = index.get<int32_t>();
  }
}

DeviceKind read_device(const nlohmann::json& json, std::string_view where) {
  const auto found = json.find("device");
  if (found == json.end()) return DeviceKind::kCpu;
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (*found == std::string(name_of(kind))) return kind;
  }
  throw input_error(where, "expected 'device' to be cpu or cuda, got {}; correct it", found->dump());
}

}  // namespace

nlohmann::ordered_json to_json(const Machine& machine) {
  nlohmann::ordered_json json = {{"name", machine.name},
                                 {"device", name_of(machine.device)},
                                 {"threads", machine.threads},
                                 {"matrix_flops_f32", machine.matrix_flops_f32},
                                 {"matrix_flops_bf16", machine.matrix_flops_bf16},
                                 {"memory_bytes_per_second", machine.memory_bytes_per_second},
                                 {"host_bytes_per_second", machine.host_bytes_per_second},
                                 {"operation_seconds", machine.operation_seconds}};
  for (int tier = 0; tier < kBudgetedTiers; ++tier) {
    json["capacity_bytes"][std::string(name_of(static_cast<Tier>(tier)))] =
        machine.capacity_bytes[static_cast<size_t>(tier)];
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    json["link_bytes_per_second"][std::string(name_of(static_cast<Lane>(lane)))] =
        machine.link_bytes_per_second[static_cast<size_t>(lane)];
  }
  for (int lane = 0; lane < kLanes; ++lane)
    json["compute_share"][std::string(name_of(static_cast<Lane>(lane)))] =
        machine.compute_share[static_cast<size_t>(lane)];
  for (const auto& [signature, seconds] : machine.operations)
    json["operations"][signature] = {{"compute_seconds", seconds.compute}, {"host_seconds", seconds.host}};
  for (const auto& [shape, index] : machine.algorithms) json["algorithms"][shape] = index;
  return json;
}

Machine machine_from_json(const nlohmann::json& json, std::string_view where) {
  if (!json.is_object())
    throw input_error(where, "expected a JSON object that describes a machine, got {}", json.type_name());
  Machine machine;
  if (json.contains("name") && json["name"].is_string()) machine.name = json["name"].get<std::string>();
  machine.device = read_device(json, where);
  read_number(json, "threads", where, machine.threads);
  read_number(json, "matrix_flops_f32", where, machine.matrix_flops_f32);
  read_number(json, "matrix_flops_bf16", where, machine.matrix_flops_bf16);
  read_number(json, "memory_bytes_per_second", where, machine.memory_bytes_per_second);
  if (json.contains("host_bytes_per_second"))
    read_number(json, "host_bytes_per_second", where, machine.host_bytes_per_second);
  read_number(json, "operation_seconds", where, machine.operation_seconds);
  const nlohmann::json& capacity = read_object(json, "capacity_bytes", where);
  for (int tier = 0; tier < kBudgetedTiers; ++tier) {
    read_number(capacity, name_of(static_cast<Tier>(tier)), where, machine.capacity_bytes[static_cast<size_t>(tier)]);
  }
  const nlohmann::json& links = read_object(json, "link_bytes_per_second", where);
  for (int lane = 0; lane < kLanes; ++lane) {
    read_number(links, name_of(static_cast<Lane>(lane)), where,
                machine.link_bytes_per_second[static_cast<size_t>(lane)]);
  }
  if (json.contains("compute_share")) {
    const nlohmann::json& shares = read_object(json, "compute_share", where);
    for (int lane = 0; lane < kLanes; ++lane) {
      double& share = machine.compute_share[static_cast<size_t>(lane)];
      read_number(shares, name_of(static_cast<Lane>(lane)), where, share);
      share = std::min(share, 1.0);
    }
  }
  if (json.contains("operations")) read_operations(json, where, machine);
  if (json.contains("algorithms")) read_algorithms(json, where, machine);
  if (machine.threads < 1 || machine.matrix_flops_f32 <= 0 || machine.matrix_flops_bf16 <= 0 ||
      machine.memory_bytes_per_second <= 0) {
    throw input_error(where, "expected at least one thread and rates above zero; correct the file");
  }
  return machine;
}

}  // namespace spillway
