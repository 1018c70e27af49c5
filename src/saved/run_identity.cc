#include "saved/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/local_time.h"
#include "io/file.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFile = "spillway_run.json";
constexpr int kIdentityVersion = 1;
constexpr int64_t kMaxFileBytes = int64_t{1} << 20;

std::string fresh_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

bool RunIdentity::holds(const RunIdentity& other, int64_t step) const {
  if (other.id == id) return true;
  return std::any_of(ancestors.begin(), ancestors.end(),
                     [&](const Ancestor& ancestor) { return ancestor.id == other.id && step <= ancestor.step; });
}

RunIdentity fresh_run() { return {.id = fresh_id(), .started = time_text(local_now())}; }

RunIdentity run_from(const RunIdentity& other, int64_t step) {
  RunIdentity run = other;
  run.ancestors.push_back({other.id, step});
  run.id = fresh_id();
  if (run.started.empty()) run.started = time_text(local_now());
  return run;
}

Json to_json(const RunIdentity& run) {
  Json ancestors = Json::array();
  for (const RunIdentity::Ancestor& ancestor : run.ancestors)
    ancestors.push_back({{"id", ancestor.id}, {"step", ancestor.step}});
  return {{"id", run.id}, {"started", run.started}, {"ancestors", ancestors}};
}

RunIdentity run_from_json(const Json& json) {
  RunIdentity run{.id = json.at("id"), .started = json.at("started")};
  for (const Json& ancestor : json.at("ancestors")) run.ancestors.push_back({ancestor.at("id"), ancestor.at("step")});
  return run;
}

std::optional<RunIdentity> read_run(const fs::path& output) {
  const fs::path path = output / kFile;
  if (!fs::exists(path)) return std::nullopt;
  try {
    const Json json = parse_json<Json>(read_file(path, kMaxFileBytes), path.string());
    if (json.at("version") == kIdentityVersion) return run_from_json(json);
  } catch (const nlohmann::json::exception&) {
    // It counts as a file of another version.
  }
  throw input_error(path.string(),
                    "expected the identity of a run, version {}, got something else; remove the file, or name the "
                    "checkpoint with resume_from_checkpoint",
                    kIdentityVersion);
}

void write_run(const fs::path& output, const RunIdentity& run) {
  Json json = {{"version", kIdentityVersion}};
  json.update(to_json(run));
  write_file(output / kFile, json_text(json, 2) + "\n");
}

}  // namespace spillway::train
