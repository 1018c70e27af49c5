#include "runtime/disk_bridge.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "backend/testing/delayed_device.h"
#include "base/error.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "io/scratch.h"
#include "io/testing/memory_disk.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("values of many pieces go over the bridge to the disk and back, and come from files at any offset") {
  constexpr int64_t kBytes = 2 * DiskBridge::bytes() + 3 * kMiB + 124, kAt = 8 * kDiskAlignment, kInFile = 5;
  DelayedDevice device(1, 300);
  const Device::Memory memory = device.allocate("device", kBytes);
  RandomStream random(3, 0);
  for (int64_t i = 0; i + 4 <= kBytes; i += 4) {
    const uint32_t bits = random.next();
    std::memcpy(memory.get() + i, &bits, 4);
  }
  const std::string content(reinterpret_cast<const char*>(memory.get()), static_cast<size_t>(kBytes));
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "model", std::ios::binary) << std::string(kInFile, 'x') << content;

  MemoryDisk disk;
  Scratch scratch({.folders = {folder.path()}, .bytes = kAt + align_up(kBytes, kDiskAlignment)});
  DiskBridge bridge(device);
  DiskQueue queue(&scratch,
                  {.read_files = {folder.path() / "model"}, .memory = {bridge.memory()}, .backend = disk.backend()});
  const auto blocks = [](std::byte* host, int64_t bytes) {
    return std::span(host, static_cast<size_t>(align_up(bytes, kDiskAlignment)));
  };
  const auto is_back = [&] { return std::memcmp(memory.get(), content.data(), content.size()) == 0; };
  bridge.write(queue, memory.get(), kBytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
    return queue.write_scratch(kAt + offset, blocks(host, bytes));
  });
  std::memset(memory.get(), 0, static_cast<size_t>(kBytes));
  bridge.read(queue, memory.get(), kBytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
    return queue.read_scratch(kAt + offset, blocks(host, bytes));
  });
  CHECK(is_back());
  std::memset(memory.get(), 0, static_cast<size_t>(kBytes));
  bridge.read(queue, memory.get(), kBytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
    return queue.read_file(0, kInFile + offset, {host, static_cast<size_t>(bytes)});
  });
  CHECK(is_back());
}

TEST_CASE("a bridge whose device breaks reports it, and its queue has nothing left when its memory goes") {
  constexpr int64_t kBytes = 2 * DiskBridge::bytes();
  const TemporaryFolder folder;
  for (int64_t fail_at = 0; fail_at < 40; ++fail_at) {
    CAPTURE(fail_at);
    DelayedDevice device(static_cast<uint64_t>(fail_at), 100, fail_at);
    const Device::Memory memory = device.allocate("device", kBytes);
    MemoryDisk disk;
    Scratch scratch({.folders = {folder.path()}, .bytes = kBytes});
    DiskBridge bridge(device);
    DiskQueue queue(&scratch, {.memory = {bridge.memory()}, .backend = disk.backend()});
    const auto move = [&] {
      bridge.write(queue, memory.get(), kBytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
        return queue.write_scratch(offset, {host, static_cast<size_t>(bytes)});
      });
      bridge.read(queue, memory.get(), kBytes, [&](int64_t offset, std::byte* host, int64_t bytes) {
        return queue.read_scratch(offset, {host, static_cast<size_t>(bytes)});
      });
    };
    CHECK_THROWS_WITH_AS(move(), doctest::Contains("on purpose"), MachineError);
  }
}
