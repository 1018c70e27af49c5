#include "plan/machine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"
#include "base/index.h"

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

template <typename T>
void read_if_there(const nlohmann::json& json, std::string_view key, std::string_view where, T& target) {
  if (json.contains(key)) read_number(json, key, where, target);
}

const nlohmann::json& read_object(const nlohmann::json& json, std::string_view key, std::string_view where) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) {
    throw input_error(where, "expected an object under '{}', got {}; write the file with `spillway doctor --json`", key,
                      found == json.end() ? "nothing" : found->type_name());
  }
  return *found;
}

void read_operations(const nlohmann::json& json, std::string_view where, Machine::OperationTable& operations) {
  for (const auto& [signature, entry] : read_object(json, "operations", where).items()) {
    if (!entry.is_object()) {
      throw input_error(where, "expected seconds for the operation '{}', got {}; measure anew with `spillway doctor`",
                        signature, entry.type_name());
    }
    Machine::OperationSeconds& seconds = operations[signature];
    read_number(entry, "compute_seconds", where, seconds.compute);
    read_number(entry, "host_seconds", where, seconds.host);
    read_if_there(entry, "cpu_share", where, seconds.cpu_share);
  }
}

void read_operation_flops(const nlohmann::json& json, std::string_view where, Machine& machine) {
  const nlohmann::json& rates = read_object(json, "operation_flops", where);
  for (const auto& [name, rate] : rates.items()) read_number(rates, name, where, machine.operation_flops[name]);
}

// Both read an object with a number for each tier that has a budget, or for each lane.
void read_tiers(const nlohmann::json& json, std::string_view where, std::array<int64_t, kTiers>& values) {
  for (const Tier tier : kEachBudgetedTier) read_number(json, name_of(tier), where, nth(values, tier));
}
void read_lanes(const nlohmann::json& json, std::string_view where, std::array<double, kLanes>& values) {
  for (const Lane lane : kEachLane) read_number(json, name_of(lane), where, nth(values, lane));
}

// Reads shares of a whole, which may be missing.
void read_shares(const nlohmann::json& json, std::string_view key, std::string_view where,
                 std::array<double, kLanes>& shares) {
  if (!json.contains(key)) return;
  read_lanes(read_object(json, key, where), where, shares);
  for (double& share : shares) share = std::min(share, 1.0);
}

void read_measured(const nlohmann::json& json, std::string_view where, Machine::Measured& measured) {
  if (json.contains("operations")) read_operations(json, where, measured.operations);
  if (json.contains("link_bytes_per_second"))
    read_lanes(read_object(json, "link_bytes_per_second", where), where, measured.link_bytes_per_second);
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

nlohmann::ordered_json tiers_json(const std::array<int64_t, kTiers>& values) {
  nlohmann::ordered_json json;
  for (const Tier tier : kEachBudgetedTier) json[std::string(name_of(tier))] = nth(values, tier);
  return json;
}

nlohmann::ordered_json lanes_json(const std::array<double, kLanes>& values) {
  nlohmann::ordered_json json;
  for (const Lane lane : kEachLane) json[std::string(name_of(lane))] = nth(values, lane);
  return json;
}

nlohmann::ordered_json operations_json(const Machine::OperationTable& operations) {
  nlohmann::ordered_json json;
  for (const auto& [signature, seconds] : operations) {
    json[signature] = {{"compute_seconds", seconds.compute}, {"host_seconds", seconds.host}};
    if (seconds.is_provisional()) json[signature]["cpu_share"] = seconds.cpu_share;
  }
  return json;
}

int64_t ranks_on_host(const Machine& machine, int64_t ranks) {
  return machine.ranks_per_host > 0 ? std::min(machine.ranks_per_host, ranks) : ranks;
}

// Multiplies a count or a rate by a share.
template <typename Figure>
void scale(Figure& figure, double share) {
  figure = static_cast<Figure>(static_cast<double>(figure) * share);
}

}  // namespace

void share_rates(Machine& machine, double share) {
  scale(machine.threads, share);
  machine.threads = std::max(1, machine.threads);
  scale(machine.host_bytes_per_second, share);
  for (auto& [signature, seconds] : machine.operations) {
    if (machine.device == DeviceKind::kCpu) seconds.compute /= share;
    seconds.host /= share;
  }
  for (const Lane lane : {Lane::kDiskRead, Lane::kDiskWrite}) scale(nth(machine.link_bytes_per_second, lane), share);
  if (machine.device != DeviceKind::kCpu) return;
  for (double* const rate : {&machine.matrix_flops_f32, &machine.matrix_flops_bf16, &machine.memory_bytes_per_second,
                             &nth(machine.link_bytes_per_second, Lane::kHostToDevice),
                             &nth(machine.link_bytes_per_second, Lane::kDeviceToHost)})
    scale(*rate, share);
  for (auto& [name, rate] : machine.operation_flops) scale(rate, share);
}

Machine share_of_rank(const Machine& machine, int64_t ranks) {
  Machine result = machine;
  result.ranks_on_host = ranks_on_host(machine, ranks);
  const double share = static_cast<double>(machine.ranks_on_host) / static_cast<double>(result.ranks_on_host);
  for (const Tier tier : kEachBudgetedTier) {
    if (tier == Tier::kDevice && machine.device != DeviceKind::kCpu) continue;
    scale(nth(result.capacity_bytes, tier), share);
    scale(nth(result.total_bytes, tier), share);
  }
  share_rates(result, share);
  return result;
}

void check_peer_rates(const Machine& machine, int64_t ranks, std::string_view where) {
  const int64_t on_host = ranks_on_host(machine, ranks);
  if (on_host > 1 && nth(machine.link_bytes_per_second, Lane::kPeer) <= 0)
    throw input_error(where,
                      "expected 'link_bytes_per_second.peer' above zero for {} ranks on a host, got 0; write the bytes "
                      "per second that a rank sends to others on its host",
                      on_host);
  if (ranks > on_host && machine.peer_between_hosts_bytes_per_second <= 0)
    throw input_error(where,
                      "expected 'peer_between_hosts_bytes_per_second' above zero for {} ranks on hosts of {}, got "
                      "none; write the bytes per second that a rank sends to other hosts, or the 'ranks_per_host'",
                      ranks, on_host);
}

nlohmann::ordered_json to_json(const Machine& machine) {
  nlohmann::ordered_json json = {{"name", machine.name},
                                 {"device", name_of(machine.device)},
                                 {"threads", machine.threads},
                                 {"matrix_flops_f32", machine.matrix_flops_f32},
                                 {"matrix_flops_bf16", machine.matrix_flops_bf16},
                                 {"memory_bytes_per_second", machine.memory_bytes_per_second},
                                 {"host_bytes_per_second", machine.host_bytes_per_second},
                                 {"operation_seconds", machine.operation_seconds}};
  for (const auto& [name, rate] : machine.operation_flops) json["operation_flops"][name] = rate;
  json["capacity_bytes"] = tiers_json(machine.capacity_bytes);
  json["total_bytes"] = tiers_json(machine.total_bytes);
  json["link_bytes_per_second"] = lanes_json(machine.link_bytes_per_second);
  if (!machine.disks.empty()) json["disks"] = machine.disks;
  json["link_latency_seconds"] = lanes_json(machine.link_latency_seconds);
  if (machine.ranks_per_host != 1) json["ranks_per_host"] = machine.ranks_per_host;
  if (machine.ranks_on_host != 1) json["ranks_on_host"] = machine.ranks_on_host;
  if (machine.peer_between_hosts_bytes_per_second > 0)
    json["peer_between_hosts_bytes_per_second"] = machine.peer_between_hosts_bytes_per_second;
  if (machine.peer_latency_seconds > 0) json["peer_latency_seconds"] = machine.peer_latency_seconds;
  json["compute_share"] = lanes_json(machine.compute_share);
  json["opposite_share"] = lanes_json(machine.opposite_share);
  if (!machine.operations.empty()) json["operations"] = operations_json(machine.operations);
  const Machine::Measured& measured = machine.measured;
  if (!measured.operations.empty()) json["measured"]["operations"] = operations_json(measured.operations);
  if (measured.link_bytes_per_second != decltype(measured.link_bytes_per_second){})
    json["measured"]["link_bytes_per_second"] = lanes_json(measured.link_bytes_per_second);
  json["cpu_shares"] = {{"rates", machine.cpu_shares.rates}, {"disks", machine.cpu_shares.disks}};
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
  if (json.contains("operation_flops")) read_operation_flops(json, where, machine);
  read_number(json, "memory_bytes_per_second", where, machine.memory_bytes_per_second);
  read_if_there(json, "host_bytes_per_second", where, machine.host_bytes_per_second);
  read_number(json, "operation_seconds", where, machine.operation_seconds);
  read_tiers(read_object(json, "capacity_bytes", where), where, machine.capacity_bytes);
  if (json.contains("total_bytes")) read_tiers(read_object(json, "total_bytes", where), where, machine.total_bytes);
  // A machine that is only described has as much in total as it can use.
  for (size_t tier = 0; tier < kTiers; ++tier)
    if (machine.total_bytes[tier] == 0) machine.total_bytes[tier] = machine.capacity_bytes[tier];
  read_lanes(read_object(json, "link_bytes_per_second", where), where, machine.link_bytes_per_second);
  if (json.contains("disks") && json["disks"].is_string()) machine.disks = json["disks"].get<std::string>();
  read_shares(json, "compute_share", where, machine.compute_share);
  read_shares(json, "opposite_share", where, machine.opposite_share);
  if (json.contains("link_latency_seconds"))
    read_lanes(read_object(json, "link_latency_seconds", where), where, machine.link_latency_seconds);
  read_if_there(json, "ranks_per_host", where, machine.ranks_per_host);
  read_if_there(json, "ranks_on_host", where, machine.ranks_on_host);
  machine.ranks_on_host = std::max<int64_t>(1, machine.ranks_on_host);
  read_if_there(json, "peer_between_hosts_bytes_per_second", where, machine.peer_between_hosts_bytes_per_second);
  read_if_there(json, "peer_latency_seconds", where, machine.peer_latency_seconds);
  if (json.contains("operations")) read_operations(json, where, machine.operations);
  if (json.contains("measured")) read_measured(read_object(json, "measured", where), where, machine.measured);
  if (json.contains("cpu_shares")) {
    const nlohmann::json& shares = read_object(json, "cpu_shares", where);
    read_number(shares, "rates", where, machine.cpu_shares.rates);
    read_number(shares, "disks", where, machine.cpu_shares.disks);
  }
  if (json.contains("algorithms")) read_algorithms(json, where, machine);
  if (machine.threads < 1 || machine.matrix_flops_f32 <= 0 || machine.matrix_flops_bf16 <= 0 ||
      machine.memory_bytes_per_second <= 0) {
    throw input_error(where,
                      "expected at least one thread and rates above zero, got {} threads, {} and {} flop/s and {} "
                      "bytes per second; correct the file",
                      machine.threads, machine.matrix_flops_f32, machine.matrix_flops_bf16,
                      machine.memory_bytes_per_second);
  }
  return machine;
}

}  // namespace spillway
