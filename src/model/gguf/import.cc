#include "model/gguf/import.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/output_folder.h"
#include "model/gguf/config.h"
#include "model/gguf/tokenizer.h"
#include "model/gguf/weights.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCommand = "import";

// A view of a tensor to write, and where its elements are in the file.
struct Piece {
  const GgufTensor* from = nullptr;
  int64_t first_row = 0;  // of `from`
  const GgufWeight* weight = nullptr;
  const GgufPart* part = nullptr;
};

// A tensor to write, and the pieces that it is made of, or its one number, which is metadata in the file.
struct Transfer {
  TensorSpec to;
  std::vector<Piece> pieces;
  std::optional<float> number;
};

const GgufTensor& find_weight(const GgufFile& file, const GgufWeight& weight) {
  const GgufTensor* tensor = file.find_tensor(weight.gguf);
  if (tensor != nullptr && tensor->shape == weight.shape) return *tensor;
  throw input_error(file.path().string(), "expected a tensor {} of [{}], got {}; use another file of the model",
                    weight.gguf, fmt::join(weight.shape, ", "),
                    tensor == nullptr ? "none" : fmt::format("[{}]", fmt::join(tensor->shape, ", ")));
}

// Returns true for a tensor of a layer behind the model's own.
bool is_unread(const GgufFile& file, std::string_view name, int64_t layers) {
  constexpr std::string_view kStart = "blk.";
  int64_t layer = 0;
  if (unread_gguf_layers(file) == 0 || !name.starts_with(kStart)) return false;
  const auto [end, error] = std::from_chars(name.data() + kStart.size(), name.data() + name.size(), layer);
  return error == std::errc() && layer >= layers;
}

// Adds the tensors whose numbers are metadata.
void add_numbers(const GgufFile& file, const GgufNumbers& numbers, DType dtype, std::vector<Transfer>& list) {
  const auto& values = file.get<std::vector<double>>(numbers.key);
  const bool are_finite = std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  if (values.size() != numbers.parts.size() || !are_finite)
    throw input_error(file.path().string(), "expected {} finite numbers as {}, got {}; use another file of the model",
                      numbers.parts.size(), numbers.key, are_finite ? fmt::format("{}", values.size()) : "others");
  for (size_t i = 0; i < values.size(); ++i) {
    const GgufPart& part = numbers.parts[i];
    list.push_back({.to = {part.name, dtype, part.shape}, .number = static_cast<float>(values[i])});
  }
}

// Every weight of the model, found in the file.
std::vector<Transfer> transfers_of(const GgufFile& file, const GgufDescription& description, DType dtype) {
  std::vector<Transfer> list;
  std::map<std::string_view, size_t> places;                        // in `list`
  std::set<std::string, std::less<>> used = {"rope_freqs.weight"};  // of ones it says nothing
  for (const GgufConstant& constant : description.constants) used.insert(constant.name);
  used.insert(description.unread.begin(), description.unread.end());
  for (const GgufWeight& weight : description.weights) {
    const GgufTensor& tensor = find_weight(file, weight);
    used.insert(weight.gguf);
    int64_t first_row = 0;
    for (const GgufPart& part : weight.parts) {
      const auto [place, is_new] = places.emplace(part.name, list.size());
      if (is_new) list.push_back({.to = {part.name, dtype, part.shape}});
      list[place->second].pieces.push_back({&tensor, first_row, &weight, &part});
      first_row += part.elems() / tensor.row_elems();
    }
  }
  for (const GgufNumbers& numbers : description.numbers) add_numbers(file, numbers, dtype, list);
  // A tensor that config.json says nothing about would be lost without a word.
  for (const auto& [name, tensor] : file.tensors()) {
    if (used.contains(name) || is_unread(file, name, description.model.layers)) continue;
    throw input_error(file.path().string(),
                      "expected only the tensors of its architecture, got {} as well; use the model's original folder",
                      quote(name));
  }
  return list;
}

// Calls take(values, number of the first, count) for the elements of a piece, some at a time.
template <typename Take>
void read_piece(const GgufFile& file, const Piece& piece, const Take& take) {
  constexpr int64_t kChunkElems = int64_t{1} << 20;
  const int64_t row = piece.from->row_elems(), rows = piece.part->elems() / row;
  const int64_t most = std::clamp<int64_t>(kChunkElems / row, 1, rows);
  auto values = make_vector<float>(most * row);
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t count = std::min(most, rows - first);
    file.read_rows(*piece.from, piece.first_row + first, count, values.data());
    const std::span<float> read(values.data(), static_cast<size_t>(count * row));
    piece.weight->to_files(read);
    take(read, first * row);
  }
}

// A tensor that lies in the file as it will lie in the folder goes through in pieces; any other is put together.
void write_transfer(const GgufFile& file, const Transfer& transfer, SafetensorsFolderWriter& writer) {
  const std::string& name = transfer.to.name;
  if (transfer.number) return writer.append(name, &*transfer.number, DType::kF32, 1);
  const Piece& only = transfer.pieces.front();
  if (transfer.pieces.size() == 1 && only.part->is_as_stored()) {
    read_piece(file, only, [&](std::span<const float> values, int64_t) {
      writer.append(name, values.data(), DType::kF32, std::ssize(values));
    });
    return;
  }
  auto result = make_vector<float>(transfer.to.elems());
  int64_t done = 0;
  for (const Piece& piece : transfer.pieces) {
    auto view = make_vector<float>(piece.part->elems());
    read_piece(file, piece, [&](std::span<const float> values, int64_t first) {
      std::copy(values.begin(), values.end(), view.begin() + first);
    });
    piece.part->scatter(view.data(), result.data());
    done += piece.part->elems();
  }
  SPILLWAY_CHECK(done == transfer.to.elems(), "{} of {} elements of {}", done, transfer.to.elems(), name);
  writer.append(name, result.data(), DType::kF32, done);
}

// GGUF promises UTF-8; the JSON library throws where a file breaks that promise.
void write_json(const fs::path& path, const Json& json, int indent, const fs::path& source) {
  try {
    write_file(path, json.dump(indent) + "\n");
  } catch (const Json::type_error&) {
    throw input_error(source.string(), "expected metadata in UTF-8, got other bytes; convert the model again");
  }
}

// Returns the type that most elements of matrices have; bf16 where that is none of a folder's.
DType kept_dtype(const GgufFile& file) {
  std::map<GgufType, int64_t> elems;
  for (const auto& [name, tensor] : file.tensors())
    if (tensor.shape.size() >= 2) elems[tensor.type] += tensor.elems();
  const auto most = std::max_element(elems.begin(), elems.end(),
                                     [](const auto& one, const auto& other) { return one.second < other.second; });
  if (most == elems.end()) return DType::kBF16;
  return most->first == GgufType::kF32 ? DType::kF32 : most->first == GgufType::kF16 ? DType::kF16 : DType::kBF16;
}

Json generation_config(const Json& config) {
  Json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.contains(key)) generation[key] = config[key];
  }
  return generation;
}

// Returns true if a value of the file is the one that the model would be exported with.
bool is_same(const GgufEntry& ours, const GgufValue& theirs) {
  constexpr double kTolerance = 1e-6;
  if (const auto* number = std::get_if<float>(&ours)) {
    const auto* other = std::get_if<double>(&theirs);
    return other != nullptr && std::abs(*other - double{*number}) <= kTolerance * std::abs(*other);
  }
  if (const auto* whole = std::get_if<uint32_t>(&ours)) {
    const auto* other = std::get_if<int64_t>(&theirs);
    return other != nullptr && *other == int64_t{*whole};
  }
  const auto *text = std::get_if<std::string>(&ours), *other = std::get_if<std::string>(&theirs);
  return text == nullptr || other == nullptr || *text == *other;
}

// Throws InputError for a number of the file that the config.json does not carry.
void check_is_carried(const GgufFile& file, const GgufMetadata& carried) {
  for (const auto& [key, value] : carried) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end() || is_same(value, found->second)) continue;
    if (key.ends_with(".block_count") && unread_gguf_layers(file) > 0) continue;
    throw input_error(file.path().string(),
                      "expected {} as a model of its architecture has it, got another value; use the model's original "
                      "folder",
                      key);
  }
}

}  // namespace

ImportReport import_gguf(const fs::path& path, const fs::path& folder, const ImportOptions& options) {
  const GgufFile file(path);
  check_gguf_model(file);
  const DType dtype = options.dtype.value_or(kept_dtype(file));
  GgufTokenizerFiles tokenizer = convert_gguf_tokenizer(file);
  const Json config = gguf_config(file, tokenizer, dtype);
  const GgufDescription description =
      imported_gguf_description(json_text(config), fmt::format("{}: config.json", path.string()));
  check_is_carried(file, description.metadata);
  const std::vector<Transfer> transfers = transfers_of(file, description, dtype);
  check_apart("--out", folder, std::array{CommandInput{"FILE.gguf", path}});
  check_replaceable("--out", folder, kCommand);

  AtomicFolder out(folder, kCommand);
  write_json(out.path() / "config.json", config, 2, path);
  write_json(out.path() / "generation_config.json", generation_config(config), 2, path);
  write_json(out.path() / "tokenizer_config.json", tokenizer.tokenizer_config, 2, path);
  write_json(out.path() / "tokenizer.json", tokenizer.tokenizer, -1, path);

  ImportReport report{.architecture = description.model.architecture, .dtype = dtype};
  std::vector<TensorSpec> specs;
  for (const Transfer& transfer : transfers) {
    specs.push_back(transfer.to);
    ++report.tensors;
    report.parameters += transfer.to.elems();
    report.bytes += transfer.to.bytes();
  }
  SafetensorsFolderWriter writer(out.path(), specs, options.max_shard_bytes);
  int64_t done = 0;
  for (const Transfer& transfer : transfers) {
    write_transfer(file, transfer, writer);
    done += transfer.to.bytes();
    if (options.progress) options.progress(done, report.bytes);
  }
  writer.commit();
  out.publish();
  return report;
}

}  // namespace spillway
