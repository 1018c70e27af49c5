#include "io/safetensors_writer.h"

#include <doctest/doctest.h>

#include <new>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/folder_entries.h"
#include "io/folder_record.h"
#include "io/gguf_writer.h"
#include "io/safetensors.h"
#include "tests/support/count_allocations.h"

namespace fs = std::filesystem;
using namespace spillway;

TEST_CASE("what is written in pieces and converted reads back") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  std::vector<float> values(300'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
  {
    SafetensorsWriter writer(path, {{"flags", DType::kU8, {3}},
                                    {"half", DType::kBF16, {300'000}},
                                    {"full", DType::kF32, {3, 100'000}},
                                    {"none", DType::kF32, {0}}});
    const uint8_t flags[3] = {1, 2, 3};
    writer.append("flags", flags, DType::kU8, 3);
    writer.append("half", values.data(), DType::kF32, 300'000);
    for (int row = 0; row < 3; ++row) writer.append("full", values.data() + row * 100'000, DType::kF32, 100'000);
    writer.commit();
  }
  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 4);
  // The widest dtype comes first, so that each tensor is aligned.
  CHECK(file.tensors().back().name == "flags");
  CHECK(file.metadata().at("format") == "pt");
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.elems() != 300'000) continue;
    std::vector<float> read(300'000);
    file.read(tensor, 0, tensor.elems(), DType::kF32, read.data());
    CHECK(read == values);
    CHECK(tensor.offset % 8 == 0);
  }
}

TEST_CASE("a value that f16 does not hold is refused with its tensor, and none of the file is left") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  const float values[3] = {1, 65504, 70000};
  {
    SafetensorsWriter writer(path, {{"w", DType::kF16, {3}}});
    writer.append("w", values, DType::kF32, 2);
    CHECK_THROWS_WITH_AS(writer.append("w", values + 2, DType::kF32, 1),
                         doctest::Contains("expected values of 'w' in the range of f16, up to 65504, got 70000; "),
                         InputError);
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("weights above the shard size are split, and a later save removes them") {
  const TemporaryFolder folder;
  const std::vector<TensorSpec> specs = {{"a", DType::kF32, {4}}, {"b", DType::kF32, {2}}, {"c", DType::kF32, {2}}};
  const float values[4] = {1, 2, 3, 4};
  const auto write = [&](int64_t shard_bytes) {
    SafetensorsFolderWriter writer(folder.path(), specs, shard_bytes);
    for (const TensorSpec& spec : specs) writer.append(spec.name, values, DType::kF32, spec.elems());
    writer.commit();
  };
  write(16);
  CHECK(fs::exists(folder.path() / "model-00002-of-00002.safetensors"));
  CHECK_FALSE(fs::exists(folder.path() / "model.safetensors"));
  {
    const SafetensorsFolder read(folder.path());
    CHECK(read.tensors().size() == 3);
    float c[2];
    read.read("c", DType::kF32, c);
    CHECK(c[1] == 2);
  }
  write(1000);
  CHECK(fs::exists(folder.path() / "model.safetensors"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("shards that took the place of older ones only in part are not read as a model") {
  const TemporaryFolder folder;
  const std::vector<TensorSpec> specs = {{"a", DType::kF32, {4}}, {"b", DType::kF32, {4}}};
  const float values[4] = {1, 2, 3, 4};
  const auto append_all = [&](SafetensorsFolderWriter& writer) {
    for (const TensorSpec& spec : specs) writer.append(spec.name, values, DType::kF32, 4);
  };
  {
    SafetensorsFolderWriter writer(folder.path(), specs, 16);
    append_all(writer);
    writer.commit();
  }
  CHECK(SafetensorsFolder(folder.path()).tensors().size() == 2);
  SafetensorsFolderWriter writer(folder.path(), specs, 16);
  append_all(writer);
  // A folder in the place of the second shard stops the save behind the first one, as a crash would.
  const fs::path second = folder.path() / "model-00002-of-00002.safetensors";
  fs::remove(second);
  fs::create_directories(second / "in the way");
  CHECK_THROWS(writer.commit());
  CHECK(fs::is_regular_file(folder.path() / "model-00001-of-00002.safetensors"));
  CHECK_THROWS_WITH_AS(SafetensorsFolder(folder.path()), doctest::Contains("got neither"), InputError);
}

TEST_CASE("weights that are not committed leave nothing") {
  const TemporaryFolder folder;
  { SafetensorsFolderWriter writer(folder.path(), {{"a", DType::kF32, {4}}}); }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("weights that the disk has no room for are refused before any of them is written") {
  const TemporaryFolder folder;
  constexpr int64_t kElems = int64_t{1} << 58;  // an exbibyte
  CHECK_THROWS_WITH_AS(SafetensorsFolderWriter(folder.path(), {{"a", DType::kF32, {kElems}}}),
                       doctest::Contains("expected room on the disk for 1073741824.00 GiB"), MachineError);
  CHECK(fs::is_empty(folder.path()));
  CHECK_THROWS_AS(GgufWriter(folder.path() / "a.gguf", {}, {{"a", GgufType::kF32, {kElems}}}), MachineError);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("an allocation that fails while a folder is written is an error, whichever it is, and leaves nothing") {
  const std::vector<TensorSpec> specs = {{"a", DType::kF32, {2, 2}}, {"b", DType::kBF16, {4}}};
  const std::vector<float> values(4, 1.0f);
  int64_t failed = 0;
  for (int64_t nth = 1;; nth += 1 + nth / 32) {  // each brings several files to the disk
    CAPTURE(nth);
    const TemporaryFolder folder;
    const fs::path target = folder.path() / "deep" / "model";
    bool done = false, is_last = false;
    {
      const testing::AllocationFailure failure(nth);
      try {
        for (int i = 0; i < 2; ++i) {  // the second replaces the first
          AtomicFolder out(target, "merge");
          SafetensorsFolderWriter writer(out.path(), specs, 16);
          for (const TensorSpec& spec : specs) writer.append(spec.name, values.data(), DType::kF32, 4);
          writer.commit();
          out.publish();
        }
        done = true;
      } catch (const std::bad_alloc&) {
      } catch (const MachineError&) {  // of a function of the C library
      } catch (const fs::filesystem_error&) {
      }
      is_last = !failure.happened();
    }
    failed += done ? 0 : 1;
    clear_leftovers(target.parent_path());
    for (const FolderEntry& entry : entries_of(target.parent_path())) CHECK(entry.name == "model");
    if (fs::exists(target)) CHECK(read_record(target)->files.size() == 3);
    if (is_last) {
      CHECK(done);
      break;
    }
  }
  CHECK((failed > 50 || !testing::AllocationCounter::works()));
}
