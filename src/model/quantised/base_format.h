// The quantisation of a run's base, recorded in the metadata of the adapter's adapter_model.safetensors, which PEFT
// ignores.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "model/parameters.h"
#include "model/storage.h"

namespace spillway {

// Returns the additional metadata; empty for a base as in its files.
[[nodiscard]] std::map<std::string, std::string> base_format_metadata(const std::optional<LinearStorage>& base);

// Returns the format that FOLDER/adapter_model.safetensors records; nothing if it records none. Throws InputError for a
// malformed record.
[[nodiscard]] std::optional<LinearStorage> read_base_format(const std::filesystem::path& adapter);

// A linear layer that the run which trained an adapter stored differently, by the names of the storages.
struct BaseChange {
  std::string module;
  std::string then, now;

  // "ADAPTER was trained over a base in which MODULE is nf4; here it is bf16".
  [[nodiscard]] std::string text(const std::filesystem::path& adapter) const;
};

// Returns the first change in a model with these parameters; nothing if there is none, or if
// FOLDER/adapter_model.safetensors is missing or records nothing. Reads a header. Throws InputError.
[[nodiscard]] std::optional<BaseChange> find_base_change(const std::filesystem::path& adapter,
                                                         const ParameterTable& parameters);

}  // namespace spillway
