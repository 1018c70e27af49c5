// How a run quantised its base, as the adapter that it trained says: in the metadata of adapter_model.safetensors,
// which PEFT passes over.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "model/parameters.h"
#include "model/storage.h"

namespace spillway {

// What to write beside the default metadata; nothing for a base that was as its files have it.
[[nodiscard]] std::map<std::string, std::string> base_format_metadata(const std::optional<LinearStorage>& base);

// What FOLDER/adapter_model.safetensors says; empty where it says nothing. Throws InputError for what is malformed.
[[nodiscard]] std::optional<LinearStorage> read_base_format(const std::filesystem::path& adapter);

// A linear layer that the run which made an adapter kept otherwise, by the names of the storages.
struct BaseChange {
  std::string module;
  std::string then, now;

  // "ADAPTER was trained over a base in which MODULE is nf4; here it is bf16".
  [[nodiscard]] std::string text(const std::filesystem::path& adapter) const;
};

// The first in a model with these parameters; empty where there is none, or where FOLDER/adapter_model.safetensors is
// not there or says nothing. Reads a header. Throws InputError.
[[nodiscard]] std::optional<BaseChange> find_base_change(const std::filesystem::path& adapter,
                                                         const ParameterTable& parameters);

}  // namespace spillway
