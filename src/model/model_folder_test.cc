#include "model/model_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "model/dit/adapter_files.h"
#include "tests/support/cache_folder.h"
#include "tests/support/source_folder.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

constexpr const char* kWeights = "pytorch_lora_weights.safetensors";
const fs::path kGolden = fs::path(SPILLWAY_SOURCE_DIR) / "tests" / "golden" / "import" / "qwen3.gguf";

auto folders_in(const fs::path& folder) {
  const auto is_folder = [](const fs::directory_entry& entry) { return entry.is_directory(); };
  return std::count_if(fs::directory_iterator(folder), {}, is_folder);
}

// Returns each tensor's bytes by its name, type and shape.
std::map<std::string, std::string> contents(const fs::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, std::string> found;
  for (const StoredTensor& tensor : file.tensors()) {
    std::string bytes(static_cast<size_t>(tensor.bytes), '\0');
    file.read_bytes(tensor, 0, std::as_writable_bytes(std::span(bytes)));
    found[tensor.name + tensor.dtype_name + tensor.shape_text()] = bytes;
  }
  return found;
}

}  // namespace

TEST_CASE("a GGUF file that is named as a model becomes a folder once, and anew when it has changed") {
  const testing::CacheFolder cache;
  const TemporaryFolder place;
  const fs::path file = place.path() / "small.gguf";
  fs::copy_file(kGolden, file);
  const fs::path first = model_folder(file.string(), "MODEL");
  CHECK(first.parent_path() == cache.path() / "spillway" / "models");
  CHECK(fs::exists(first / "config.json"));
  CHECK(fs::exists(first / "tokenizer.json"));
  const auto made = fs::last_write_time(first / "config.json");
  CHECK(model_folder(file.string(), "MODEL") == first);
  CHECK(fs::last_write_time(first / "config.json") == made);

  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(5));
  const fs::path second = model_folder(file.string(), "MODEL");
  CHECK(second != first);
  CHECK(fs::exists(second / "config.json"));
  CHECK_FALSE(fs::exists(first));
  CHECK(folders_in(first.parent_path()) == 1);
}

TEST_CASE("a file of ComfyUI or kohya's trainer that is named as an adapter becomes the folder that it was made of") {
  const testing::CacheFolder cache;
  const TemporaryFolder place;
  const fs::path adapter = testing::source_folder() / "tests/golden/video/i2v/lora";
  for (const AdapterNames names : {AdapterNames::kComfyUi, AdapterNames::kKohya}) {
    const fs::path file = place.path() / (names == AdapterNames::kKohya ? "kohya.safetensors" : "comfy.safetensors");
    export_video_adapter(adapter, names, file);
    const fs::path folder = model_folder(file.string(), "lora_model_dir", hub::FolderUse::kAdapter);
    CHECK(folder.parent_path() == cache.path() / "spillway" / "adapters");
    CHECK_NOTHROW(check_model_folder(folder.string(), "lora_model_dir", hub::FolderUse::kAdapter));
    CHECK(contents(folder / kWeights) == contents(adapter / kWeights));
    CHECK(model_folder(file.string(), "--adapter", hub::FolderUse::kAdapter) == folder);
    CHECK(model_folder(file.string(), "MODEL") == file);
  }
  // A file of a folder as PEFT or diffusers save it is no such file: its folder is to be named.
  const std::string own = adapter / kWeights;
  CHECK(model_folder(own, "lora_model_dir", hub::FolderUse::kAdapter) == own);
  CHECK_THROWS_WITH_AS(check_model_folder(own, "lora_model_dir", hub::FolderUse::kAdapter),
                       doctest::Contains("name the folder that it lies in"), InputError);
}

TEST_CASE("what is no GGUF file stays as it is named") {
  const TemporaryFolder place;
  write_file(place.path() / "text", "GGU");
  for (const std::string& named :
       {place.path().string(), (place.path() / "text").string(), std::string("nowhere"), std::string()})
    CHECK(model_folder(named, "MODEL") == named);
}

TEST_CASE("a GGUF file that is broken leaves nothing in the cache") {
  const testing::CacheFolder cache;
  const TemporaryFolder place;
  write_file(place.path() / "bad.gguf", "GGUF and no more");
  CHECK_THROWS_AS((void)model_folder((place.path() / "bad.gguf").string(), "MODEL"), InputError);
  CHECK(folders_in(cache.path() / "spillway" / "models") == 0);
}

TEST_CASE("what full training leaves of a pipeline is the folder of a model") {
  const TemporaryFolder place;
  const std::string folder = (place.path() / "run").string();
  const auto check = [&] { check_model_folder(folder, "MODEL", hub::FolderUse::kModel); };
  fs::create_directories(place.path() / "run" / "transformer");
  CHECK_THROWS_AS(check(), InputError);
  write_file(place.path() / "run" / "transformer" / "config.json", "{}");
  check();
  CHECK(model_folder(folder, "MODEL") == (place.path() / "run" / "transformer").string());
}
