#include "job/fit/catalogue.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "job/fit/catalogue_files.h"
#include "job/fit/known_name.h"
#include "model/model_folder.h"

namespace spillway {
namespace {

using nlohmann::json;

std::vector<std::string> names_of(const json& files) {
  std::vector<std::string> names;
  for (const auto& file : files.items()) names.push_back(file.key());
  return names;
}

std::vector<std::string_view> views_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

// Throws what to write in the place of `name`. `others`: what may be named besides.
[[noreturn]] void throw_unknown(std::string_view what, std::string_view name, std::span<const std::string_view> known,
                                std::string_view others, std::string_view where) {
  const std::string_view near = nearest_name(name, known);
  throw input_error(where, "expected the name of {}, got {}; {}name {}one of {}", what, quote(name),
                    near.empty() ? "" : fmt::format("did you mean {}? Or ", near), others, fmt::join(known, ", "));
}

const json& machine_files() {
  static const json files = json::parse(kMachineFiles);
  return files;
}

bool is_supported(std::string_view name) { return !machine_files()[name].contains("not_supported"); }

// Returns the machine of a file of the catalogue. Throws InputError if nothing runs there, where it is called `shown`.
Machine supported_machine(const std::string& name, std::string_view shown, std::string_view where) {
  const json& file = machine_files()[name];
  if (const auto why = file.find("not_supported"); why != file.end())
    throw input_error(
        where,
        "expected a GPU that Spillway runs on, got {}: {}; name another, or plan for a computer without a "
        "GPU: laptop-cpu-16gb, desktop-cpu-64gb",
        shown, why->get<std::string>());
  return machine_from_json(file, name);
}

const json& model_files() {
  static const json files = json::parse(kModelFiles);
  return files;
}

// By its own name, or that of a model of the same shape; empty where there is none.
std::string full_model_name(std::string_view name) {
  for (const auto& file : model_files().items()) {
    if (file.key() == name || is_same_shape(name, file.key()) ||
        is_same_shape(name, file.value()["_name_or_path"].get<std::string>()))
      return file.key();
  }
  return "";
}

ModelShape known_shape(const std::string& full) {
  const json& config = model_files()[full];
  return {.name = full, .hub_id = config["_name_or_path"].get<std::string>(), .config = config.dump(2)};
}

}  // namespace

Machine machine_by_name(std::string_view name, std::string_view where) {
  const json& files = machine_files();
  if (files.contains(name)) return supported_machine(std::string(name), name, where);
  const std::vector<std::string> names = names_of(files);
  const std::vector<std::string_view> known = views_of(names), meant = machines_meant(name, known);
  if (meant.empty()) throw_unknown("a machine", name, views_of(machine_names()), "", where);
  // Whichever of them is meant, the first one's answer holds where nothing runs on any.
  if (meant.size() > 1 && std::any_of(meant.begin(), meant.end(), is_supported))
    throw input_error(where, "expected a machine's name, got {}, which may be {}; name one of them", quote(name),
                      joined_names(meant));
  return supported_machine(std::string(meant.front()), meant.size() > 1 ? name : meant.front(), where);
}

ModelShape model_by_name(std::string_view name, std::string_view where) {
  if (const std::string full = full_model_name(name); !full.empty()) return known_shape(full);
  const std::vector<std::string> names = names_of(model_files());
  std::vector<std::string_view> begun;
  for (const std::string& known : names) {
    if (!name.empty() && known.starts_with(name)) begun.emplace_back(known);
  }
  if (begun.size() == 1) return known_shape(std::string(begun.front()));
  if (begun.size() > 1)
    throw input_error(where, "expected a model's name, got {}, with which {} begin; name one of them", quote(name),
                      fmt::join(begun, ", "));
  throw_unknown("a model", name, views_of(names), "a folder, or ", where);
}

NamedModel named_model(const std::string& name, std::optional<TemporaryFolder>& room, std::string_view where) {
  std::error_code none;
  const bool is_of_hub = name.find('/') != std::string::npos;
  if (std::filesystem::exists(name, none) || (is_of_hub && full_model_name(name).empty())) {
    std::string folder = model_folder(name, where, hub::FolderUse::kConfig);
    check_model_folder(folder, where, hub::FolderUse::kConfig);
    return {std::move(folder), name};
  }
  const ModelShape shape = model_by_name(name, where);
  if (!room) room.emplace();
  const std::filesystem::path folder = room->path() / shape.name;
  std::filesystem::create_directory(folder);
  write_file(folder / "config.json", shape.config);
  return {folder.string(), is_of_hub ? name : shape.hub_id};
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names = names_of(machine_files());
  std::erase_if(names, [](const std::string& name) { return !is_supported(name); });
  return names;
}
std::vector<std::string> model_names() { return names_of(model_files()); }

}  // namespace spillway
