#include "data/clips/parquet_clips.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "data/clips/clip_names.h"
#include "data/files/record_parsers.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, kRowTensors> kStems = {kVaeLatent, kTextEmbedding, kClipFeature, kFirstFrame,
                                                              kNoise};
constexpr TensorNames kColumns = {"vae_latent_bytes", "text_embedding_bytes", "clip_feature_bytes",
                                  "first_frame_latent_bytes", "noise_bytes"};

std::vector<std::string> byte_columns() { return {kColumns.begin(), kColumns.end()}; }

std::vector<std::string> small_columns() {
  std::vector<std::string> columns = {std::string(kTimestep), kCaption};
  for (const std::string_view stem : kStems) {
    for (const std::string_view what : {"shape", "dtype"}) columns.push_back(fmt::format("{}_{}", stem, what));
  }
  return columns;
}

const Json* field_of(const Record& record, const std::string& name) {
  const auto found = record.fields.find(name);
  return found == record.fields.end() || found->is_null() ? nullptr : &*found;
}

std::vector<int64_t> shape_of(const Json& field, const std::string& name, const std::string& where) {
  std::vector<int64_t> shape;
  const bool is_list =
      field.is_array() && std::all_of(field.begin(), field.end(), [](const Json& one) {
        return one.is_number_integer() && !(one.is_number_unsigned() && one.get<uint64_t>() > uint64_t{INT64_MAX});
      });
  constexpr size_t kMaxRank = 8;
  if (!is_list || field.size() > kMaxRank)
    throw input_error(where, "expected a list of whole numbers as {}, got {}; correct the row", name,
                      quote(field.dump()));
  for (const Json& one : field) shape.push_back(one.get<int64_t>());
  return shape;
}

StoredValues tensor_values(const Record& record, std::string_view stem) {
  const std::string shape_name = fmt::format("{}_shape", stem), type_name = fmt::format("{}_dtype", stem);
  const Json* const shape = field_of(record, shape_name);
  if (shape == nullptr) return {};
  StoredValues values{.is_there = true, .shape = shape_of(*shape, shape_name, record.where)};
  if (values.shape.empty()) return {};
  if (const Json* const type = field_of(record, type_name)) {
    const auto known = type->is_string() ? stored_type(type->get_ref<const std::string&>()) : std::nullopt;
    if (!known)
      throw input_error(record.where, "expected float32, float16, bfloat16 or float64 as {}, got {}; correct the row",
                        type_name, quote(type->dump()));
    values.type = *known;
  }
  return values;
}

class ParquetClips : public ClipFile {
 public:
  ParquetClips(const fs::path& path, PageCursors& cursors) : path_(path), bytes_(path, byte_columns(), cursors) {
    const auto has = [&](const std::string& name) {
      const auto& columns = bytes_.layout().columns;
      return std::find(columns.begin(), columns.end(), name) != columns.end();
    };
    for (size_t i = 0; i < kRowTensors; ++i) {
      const std::string bytes(kColumns[i]), shape = fmt::format("{}_shape", kStems[i]);
      const bool is_needed = i == kLatentsTensor || i == kTextTensor || has(bytes) || has(shape);
      for (const std::string& name : {bytes, shape}) {
        if (is_needed && !has(name))
          throw input_error(path_.string(),
                            "expected a column {}, got none; make the file by FastVideo's preprocessing", name);
      }
    }
  }

  [[nodiscard]] const fs::path& path() const override { return path_; }
  [[nodiscard]] const TensorNames& names() const override { return kColumns; }
  [[nodiscard]] std::string where(int64_t row) const override {
    return fmt::format("{}, row {}", path_.string(), row + 1);
  }

  [[nodiscard]] std::vector<RowHeader> headers() const override {
    const std::vector<std::string> columns = small_columns();
    const auto records = make_arrow_records(path_, RecordFormat::kParquet, &columns);
    std::vector<RowHeader> rows;
    Record record;
    while (records->next(record)) {
      RowHeader& row = rows.emplace_back();
      for (size_t i = 0; i < kRowTensors; ++i) row.tensors[i] = tensor_values(record, kStems[i]);
      if (const Json* const timestep = field_of(record, std::string(kTimestep))) {
        if (!timestep->is_number())
          throw input_error(record.where, "expected a number as timestep, got {}; correct the row",
                            quote(timestep->dump()));
        row.timestep = timestep->get<double>();
      }
      if (const Json* const caption = field_of(record, kCaption); caption != nullptr && caption->is_string())
        row.caption = caption->get<std::string>();
    }
    if (std::ssize(rows) != bytes_.rows())
      throw input_error(path_.string(), "expected {} rows, got {}; the file is broken: make or download it again",
                        bytes_.rows(), rows.size());
    return rows;
  }

  [[nodiscard]] std::vector<float> read(int64_t row, RowTensor which, const StoredValues& values) const override {
    std::vector<float> floats;
    std::vector<std::byte> others;
    const auto room = [&](int64_t bytes) -> std::span<std::byte> {
      if (bytes != values.bytes())
        throw input_error(where(row), "expected {} bytes in {}, got {}; shape and type are those of other values",
                          values.bytes(), kColumns[which], bytes < 0 ? "null" : fmt::format("{}", bytes));
      if (values.type == StoredType::kF32) {
        resize(floats, values.elems());
        return std::as_writable_bytes(std::span(floats));
      }
      resize(others, bytes);
      return others;
    };
    bytes_.read(which, row, room);
    if (values.type != StoredType::kF32) return to_floats(others, values.type, kColumns[which], where(row));
    check_finite(floats, kColumns[which], where(row));
    return floats;
  }

 private:
  fs::path path_;
  ParquetBytes bytes_;
};

}  // namespace

std::unique_ptr<ClipFile> make_parquet_clips(const fs::path& path, PageCursors& cursors) {
  return std::make_unique<ParquetClips>(path, cursors);
}

}  // namespace spillway::data
