#include "data/clips/clip_rows.h"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "data/clips/parquet_clips.h"
#include "io/safetensors_writer.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;
using Document = nlohmann::json;

const fs::path kClipsGolden = SPILLWAY_SOURCE_DIR "/tests/golden/clips";
constexpr bool kHasArrow = SPILLWAY_HAS_ARROW;

ClipDemands text_demands() { return {.channels = 2, .patch = {1, 2, 2}, .max_positions = 64, .text_width = 3}; }
ClipDemands image_demands() {
  ClipDemands demands = text_demands();
  demands.image_width = 5;
  demands.image_channels = 4;
  return demands;
}

DatasetConfig dataset(const fs::path& path, double weight = 1) {
  DatasetConfig config;
  config.path = path.string();
  config.weight = weight;
  return config;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Document golden(const char* name) { return Document::parse(read_text(kClipsGolden / name)); }

// Returns the error of opening a dataset and reading all its rows.
std::string clips_error(const fs::path& path, const ClipDemands& demands = text_demands(), int64_t num_latent_t = 0) {
  try {
    const ClipRows rows({dataset(path)}, demands, "datasets", num_latent_t);
    for (int64_t i = 0; i < rows.size(); ++i) (void)rows.read(i);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

Tensor zeros(std::vector<int64_t> shape, float value = 0) {
  int64_t elems = 1;
  for (const int64_t size : shape) elems *= size;
  return {std::move(shape), std::vector<float>(static_cast<size_t>(elems), value)};
}

Tensors usual_row() { return {{"latents", zeros({2, 3, 4, 6}, 1)}, {"text_embedding", zeros({2, 3}, 1)}}; }

void write_row(const fs::path& path, const Tensors& tensors, const std::string& latents = "") {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({.name = name, .dtype = DType::kF32, .shape = tensor.shape});
  std::map<std::string, std::string> metadata = default_metadata();
  if (!latents.empty()) metadata["latents"] = latents;
  SafetensorsWriter writer(path, specs, metadata);
  for (const auto& [name, tensor] : tensors)
    writer.append(name, tensor.values.data(), DType::kF32, std::ssize(tensor.values));
  writer.commit();
}

// Returns the error of a folder with one row.
std::string error_of_row(const Tensors& tensors, const ClipDemands& demands = text_demands(),
                         const std::string& latents = "") {
  const TemporaryFolder folder;
  write_row(folder.path() / "row.safetensors", tensors, latents);
  return clips_error(folder.path(), demands);
}
std::string error_with(const std::string& name, Tensor tensor) {
  Tensors row = usual_row();
  row[name] = std::move(tensor);
  return error_of_row(row);
}

std::vector<float> floats(const Document& json) { return json.get<std::vector<float>>(); }

}  // namespace

TEST_CASE("rows of pyarrow's files are read to the last value, whatever the dtype, compression and kind of pages" *
          doctest::skip(!kHasArrow)) {
  const Document wanted = golden("text.json");
  const ClipRows rows({dataset(kClipsGolden / "text")}, text_demands(), "datasets");
  REQUIRE(rows.size() == std::ssize(wanted));
  // Backwards, then forwards: in any order.
  for (int64_t turn = 0; turn < 2 * rows.size(); ++turn) {
    const int64_t i = turn < rows.size() ? rows.size() - 1 - turn : turn - rows.size();
    CAPTURE(rows.where(i));
    const Document& want = nth(wanted, i);
    const Clip clip = rows.read(i);
    CHECK(clip.latents == floats(want["latents"]));
    CHECK(clip.text == floats(want["text"]));
    const bool is_image = want["shape"].size() == 3;
    CHECK(clip.header.latents.frames == (is_image ? 1 : want["shape"][1].get<int64_t>()));
    CHECK(clip.header.latents.width == want["shape"].back().get<int64_t>());
    CHECK(clip.header.text_rows * 3 == std::ssize(clip.text));
    CHECK(!clip.header.is_normalised);
    CHECK((clip.image.empty() && clip.first_frame.empty() && clip.noise.empty() && !clip.timestep));
  }
  CHECK(rows.where(1) == (kClipsGolden / "text/a.parquet").string() + ", row 2");
}

TEST_CASE("files of a video dataset come in the order of their paths, without FastVideo's cache" *
          doctest::skip(!kHasArrow)) {
  const ClipRows rows({dataset(kClipsGolden / "text")}, text_demands(), "datasets");
  std::string places;
  for (int64_t i = 0; i < rows.size(); i += 3)
    places += fs::relative(rows.where(i), kClipsGolden / "text").string() + "; ";
  CHECK(
      places ==
      "a.parquet, row 1; b/0.parquet, row 1; b/deeper/1.parquet, row 1; b/deeper/2.parquet, row 1; c/3.parquet, row 1; "
      "d.parquet, row 1; e.parquet, row 1; f.parquet, row 1; g.parquet, row 1; h.parquet, row 1; ");
}

TEST_CASE("rows of image-to-video have the image, the first frame, and perhaps noise and timestep" *
          doctest::skip(!kHasArrow)) {
  const Document wanted = golden("image.json");
  const ClipRows rows({dataset(kClipsGolden / "image")}, image_demands(), "datasets");
  REQUIRE(rows.size() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    const Document& want = nth(wanted, i);
    const Clip clip = rows.read(i);
    CHECK(clip.latents == floats(want["latents"]));
    CHECK(clip.text == floats(want["text"]));
    CHECK(clip.image == floats(want["image"]));
    CHECK(clip.first_frame == floats(want["first_frame"]));
    CHECK(clip.header.image_rows == 3);
    CHECK(clip.header.has_noise == (i < 2));
    CHECK(clip.header.is_normalised == (i == 2));
    if (i == 2) continue;
    CHECK(clip.noise == floats(want["noise"]));
    CHECK(clip.timestep == want["timestep"].get<float>());
  }
}

TEST_CASE("values behind pages larger than a decompressor's window are right" * doctest::skip(!kHasArrow)) {
  const ClipRows rows({dataset(kClipsGolden / "large")}, text_demands(), "datasets");
  REQUIRE(rows.size() == 6);
  for (const int64_t i : {2, 0, 1, 4, 5, 3}) {
    const Clip clip = rows.read(i);
    REQUIRE(clip.latents.size() == 2 * 4 * 48 * 48);
    int64_t wrong = 0;
    for (int64_t j = 0; j < std::ssize(clip.latents); ++j)
      wrong += nth(clip.latents, j) != static_cast<float>((j * 7 + i % 3 * 13) % 1009) ? 1 : 0;
    CHECK(wrong == 0);
  }
}

TEST_CASE("num_latent_t keeps the first frames of everything that has frames") {
  const TemporaryFolder folder;
  Tensors row = usual_row();
  row["noise"] = row["latents"];
  row["first_frame_latent"] = zeros({4, 3, 4, 6});
  row["clip_feature"] = zeros({1, 5});
  for (auto* name : {"latents", "noise", "first_frame_latent"}) {
    for (size_t i = 0; i < row[name].values.size(); ++i) row[name].values[i] = static_cast<float>(i);
  }
  write_row(folder.path() / "row.safetensors", row);
  const ClipRows rows({dataset(folder.path())}, image_demands(), "datasets", 2);
  CHECK((rows.header(0).latents == ClipShape{2, 2, 4, 6}));
  const Clip clip = rows.read(0);
  const auto check_cut = [](const std::vector<float>& values, size_t channels) {
    REQUIRE(values.size() == channels * 2 * 24);
    for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == static_cast<float>(i / 48 * 72 + i % 48));
  };
  check_cut(clip.latents, 2);
  check_cut(clip.noise, 2);
  check_cut(clip.first_frame, 4);
}

TEST_CASE("datasets of clips follow one another, and a weight repeats rows") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    fs::create_directories(folder.path() / name);
    for (const char* file : {"0.safetensors", "1.safetensors"}) write_row(folder.path() / name / file, usual_row());
  }
  const auto places = [&](const std::vector<DatasetConfig>& configs) {
    const ClipRows rows(configs, text_demands(), "datasets");
    std::string text;
    for (int64_t i = 0; i < rows.size(); ++i) {
      const fs::path place = fs::relative(rows.where(i), folder.path());
      text += place.parent_path().string() + place.stem().string() + " ";
    }
    return text;
  };
  CHECK(places({dataset(folder.path() / "b"), dataset(folder.path() / "a", 3)}) == "b0 b1 a0 a0 a0 a1 a1 a1 ");
  CHECK(places({dataset(folder.path() / "b", 0.5), dataset(folder.path() / "a/1.safetensors")}) == "b1 a1 ");
  DatasetConfig skipping = dataset(folder.path());
  skipping.skip = 1;
  skipping.shards = 2;
  CHECK(places({skipping}) == "a1 b1 ");
  CHECK(places({dataset(folder.path() / "*" / "1.*")}) == "a1 b1 ");
}

TEST_CASE("a checksum of rows changes with their shapes and files, not with where they lie") {
  const TemporaryFolder folder;
  const auto checksum_at = [&](const char* name, const Tensors& row) {
    fs::create_directories(folder.path() / name);
    write_row(folder.path() / name / "0.safetensors", row);
    return ClipRows({dataset(folder.path() / name)}, text_demands(), "datasets").checksum();
  };
  Tensors wide = usual_row();
  wide["latents"] = zeros({2, 3, 6, 4});
  const std::string usual = checksum_at("a", usual_row());
  CHECK(usual.size() == 16);
  CHECK(checksum_at("b", usual_row()) == usual);
  CHECK(checksum_at("c", wide) != usual);
}

TEST_CASE("a row that cannot be right is told by file, row and tensor") {
  CHECK(error_of_row(usual_row()) == "none");
  CHECK(has(error_with("latents", zeros({3, 3, 4, 6})), "row.safetensors] expected latents of 2 channels"));
  CHECK(has(error_with("latents", zeros({2, 3, 5, 6})), "expected latents of sizes that the model's patch [1, 2, 2]"));
  CHECK(has(error_with("latents", zeros({2, 1, 2, 130})), "got [2, 1, 2, 130]"));
  CHECK(has(error_with("latents", zeros({2, 24})), "expected latents of [C, T, H, W] or [C, H, W], got [2, 24]"));
  CHECK(has(error_with("text_embedding", zeros({2, 4})), "expected text_embedding of [L, 3] or [1, L, 3], got [2, 4]"));
  CHECK(has(error_with("text_embedding", zeros({2, 2, 3})), "got [2, 2, 3]"));
  CHECK(has(error_with("noise", zeros({2, 3, 4, 4})), "expected noise of [2, 3, 4, 6], got [2, 3, 4, 4]"));
  CHECK(has(error_with("clip_feature", zeros({2, 5})), "expected clip_feature in no row"));
  CHECK(has(error_with("first_frame_latent", zeros({4, 3, 4, 6})), "expected first_frame_latent in no row"));
  CHECK(has(error_with("timestep", zeros({1}, 1000.5F)), "expected a timestep from 0 to 1000, got 1000.5"));
  CHECK(has(error_with("timestep", zeros({1}, -1)), "got -1"));
  CHECK(has(error_with("timestep", zeros({2})), "expected one number in timestep, got the shape [2]"));
  CHECK(has(error_with("timestep", zeros({1}, std::numeric_limits<float>::quiet_NaN())), "finite values in timestep"));
  CHECK(error_with("timestep", zeros({}, 7)) == "none");
  Tensor broken = zeros({2, 3, 4, 6});
  broken.values[100] = std::numeric_limits<float>::infinity();
  CHECK(has(error_with("latents", broken), "expected finite values in latents, got NaN, infinity"));
  CHECK(has(error_with("latents", broken), "at element 100"));
  Tensors without = usual_row();
  without.erase("latents");
  CHECK(has(error_of_row(without), "expected latents in every row, got none"));
  without = usual_row();
  without.erase("text_embedding");
  CHECK(has(error_of_row(without), "expected text_embedding in every row, got none"));
  CHECK(
      has(error_of_row(usual_row(), image_demands()), "expected clip_feature in every row, as the model reads images"));
  CHECK(has(error_of_row(usual_row(), text_demands(), "scaled"), "expected \"normalized\" or \"raw\""));
  CHECK(error_of_row(usual_row(), text_demands(), "normalized") == "none");
}

TEST_CASE("where there are no rows, that is said with the path or the key") {
  const TemporaryFolder folder;
  CHECK(has(clips_error(folder.path()), "expected files *.parquet or *.safetensors, got none"));
  CHECK(has(clips_error(folder.path() / "none"), "none] expected a folder or a file with rows of video latents"));
  std::ofstream(folder.path() / "rows.jsonl") << "{}";
  CHECK(has(clips_error(folder.path() / "rows.jsonl"), "expected FILE.parquet or FILE.safetensors"));
  DatasetConfig skipping = dataset(folder.path());
  write_row(folder.path() / "row.safetensors", usual_row());
  skipping.skip = 5;
  CHECK_THROWS_WITH_AS(ClipRows({skipping}, text_demands(), "test_datasets"),
                       "[test_datasets] expected rows of video latents, got none; correct the paths", InputError);
}

TEST_CASE("cut and scribbled Parquet files are InputErrors, whatever was hit" * doctest::skip(!kHasArrow)) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "rows.parquet";
  const auto error_of_bytes = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    return clips_error(file);
  };
  for (const char* name : {"a.parquet", "b/0.parquet", "f.parquet", "h.parquet"}) {
    const std::string bytes = read_text(kClipsGolden / "text" / name);
    CHECK(error_of_bytes(bytes) == "none");
    CHECK(error_of_bytes(bytes.substr(0, bytes.size() / 2)) != "none");
    CHECK(error_of_bytes("") != "none");
    for (size_t at = 4; at < bytes.size(); at += 41) {
      std::string scribbled = bytes;
      scribbled[at] = static_cast<char>(scribbled[at] ^ 0x55);
      (void)error_of_bytes(scribbled);  // an InputError or, in a value, nothing; no crash
    }
  }
}

TEST_CASE("a Parquet row that cannot be right is told by file, row and column" * doctest::skip(!kHasArrow)) {
  const auto error_in = [](const std::string& name) { return clips_error(kClipsGolden / "bad" / (name + ".parquet")); };
  CHECK(has(error_in("negative_size"),
            "negative_size.parquet, row 2] expected vae_latent_bytes of sizes above 0, got "
            "[2, 1, -2, -2]"));
  CHECK(has(error_in("zero_size"), "row 2] expected text_embedding_bytes of sizes above 0, got [0, 3]"));
  CHECK(has(error_in("overflow"), "row 2] expected vae_latent_bytes of at most 134217728 elements, got [2, 46116860"));
  CHECK(has(error_in("null_shape"), "row 2] expected text_embedding_bytes in every row, got none"));
  CHECK(has(error_in("null_in_shape"),
            "row 2] expected a list of whole numbers as vae_latent_shape, got '[2,null,2,2]'"));
  CHECK(has(error_in("dtype"), "row 2] expected float32, float16, bfloat16 or float64 as vae_latent_dtype"));
  CHECK(has(error_in("null_bytes"), "row 2] expected 32 bytes in vae_latent_bytes, got null"));
  CHECK(has(error_in("fewer_bytes"), "row 2] expected 32 bytes in vae_latent_bytes, got 28"));
  CHECK(has(error_in("infinity"), "row 2] expected finite values in vae_latent_bytes"));
  CHECK(has(error_in("infinity"), "at element 5"));
  CHECK(has(error_in("timestep"), "row 2] expected a timestep from 0 to 1000, got 1000.5"));
  CHECK(has(error_in("no_latents"), "no_latents.parquet] expected a column vae_latent_bytes, got none"));
  CHECK(has(error_in("no_shape"), "expected a column text_embedding_shape, got none"));
  CHECK(has(error_in("lists"), "expected bytes in the column 'vae_latent_bytes', got values of another type"));
  CHECK(has(error_in("encoding"), "expected bytes in the encodings PLAIN or RLE_DICTIONARY, got Parquet's encoding 6"));
}

TEST_CASE("a Parquet file's shape and bytes must fit, which is seen as the row is read" * doctest::skip(!kHasArrow)) {
  // The shape of another row: 2 x 2 x 2 x 2 for bytes of 2 x 2 x 2 x 4.
  PageCursors cursors;
  const auto file = make_parquet_clips(kClipsGolden / "text/a.parquet", cursors);
  StoredValues values = file->headers()[1].tensors[kLatentsTensor];
  values.shape = {2, 2, 2, 2};
  try {
    (void)file->read(1, kLatentsTensor, values);
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(has(error.what(), "a.parquet, row 2] expected 64 bytes in vae_latent_bytes, got 128"));
  }
}

}  // namespace spillway::data
