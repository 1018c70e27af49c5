// Datasets of tests: files in a folder, the tokenizer of the goldens, and rows as they come of them.
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "data/dataset.h"

namespace spillway::data {

inline const std::filesystem::path kGoldenRows = SPILLWAY_SOURCE_DIR "/tests/golden/rows";

inline const text::Tokenizer& dataset_tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(kGoldenRows);
  return loaded;
}

struct DataFolder : TemporaryFolder {
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path() / name, std::ios::binary) << text;
    return path() / name;
  }
};

inline DatasetConfig rows_dataset(const std::filesystem::path& path, const std::string& type) {
  DatasetConfig config;
  config.path = path.string();
  config.type = {true, type};
  return config;
}

// Returns the message with which a dataset is refused.
inline std::string dataset_error(const DatasetConfig& config, const RowOptions& options = {}) {
  try {
    (void)load_datasets(std::span(&config, 1), options, dataset_tokenizer());
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

inline std::vector<Row> rows_of(const RowTable& table) {
  std::vector<Row> rows;
  for (int64_t i = 0; i < table.size(); ++i) {
    const Piece piece = table.row(i);
    const auto ids = table.ids(piece), labels = table.labels(piece);
    rows.push_back({{ids.begin(), ids.end()}, {labels.begin(), labels.end()}});
  }
  return rows;
}

}  // namespace spillway::data
