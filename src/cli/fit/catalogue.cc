#include "cli/fit/catalogue.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/fit/catalogue_files.h"
#include "io/file.h"
#include "model/model_folder.h"

namespace spillway {
namespace {

using nlohmann::json;

std::vector<std::string> names_of(const json& files) {
  std::vector<std::string> names;
  for (const auto& file : files.items()) names.push_back(file.key());
  return names;
}

// The one that is meant. `what`: "a machine".
std::string full_name(const json& files, std::string_view name, std::string_view what, std::string_view where) {
  if (files.contains(name)) return std::string(name);
  const std::vector<std::string> names = names_of(files);
  std::vector<std::string_view> begun;
  for (const std::string& known : names) {
    if (!name.empty() && known.starts_with(name)) begun.emplace_back(known);
  }
  if (begun.size() == 1) return std::string(begun.front());
  if (begun.size() > 1) {
    throw input_error(where, "expected {}'s name, got {}, with which {} begin; name one of them", what, quote(name),
                      fmt::join(begun, ", "));
  }
  const std::vector<std::string_view> all(names.begin(), names.end());
  const std::string_view near = nearest_name(name, all);
  throw input_error(where, "expected the name of {}, got {}; {}name one of {}", what, quote(name),
                    near.empty() ? "" : fmt::format("did you mean {}? Or ", near), fmt::join(all, ", "));
}

const json& machine_files() {
  static const json files = json::parse(kMachineFiles);
  return files;
}

const json& model_files() {
  static const json files = json::parse(kModelFiles);
  return files;
}

}  // namespace

Machine machine_by_name(std::string_view name, std::string_view where) {
  const std::string full = full_name(machine_files(), name, "a machine", where);
  return machine_from_json(machine_files()[full], full);
}

ModelShape model_by_name(std::string_view name, std::string_view where) {
  const std::string full = full_name(model_files(), name, "a model", where);
  const json& config = model_files()[full];
  return {.name = full, .hub_id = config["_name_or_path"].get<std::string>(), .config = config.dump(2)};
}

NamedModel named_model(const std::string& name, const std::filesystem::path& room, std::string_view where) {
  std::error_code none;
  if (std::filesystem::exists(name, none)) return {model_folder(name, where), name};
  const ModelShape shape = model_by_name(name, where);
  const std::filesystem::path folder = room / shape.name;
  std::filesystem::create_directory(folder);
  write_file(folder / "config.json", shape.config);
  return {folder.string(), shape.hub_id};
}

std::vector<std::string> machine_names() { return names_of(machine_files()); }
std::vector<std::string> model_names() { return names_of(model_files()); }

}  // namespace spillway
