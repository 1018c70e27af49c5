#include "data/clips/clip_stream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/safetensors_writer.h"

namespace spillway::data {
namespace {

constexpr ClipDemands kStreamDemands{.channels = 1, .max_positions = 8, .text_width = 2};

// So many rows, the latents of each being its number; the one at `broken` has an infinity.
std::shared_ptr<const ClipRows> rows_in(const TemporaryFolder& folder, int64_t rows, int64_t broken = -1) {
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<float> latents(4, static_cast<float>(i));
    if (i == broken) latents[2] = std::numeric_limits<float>::infinity();
    const std::vector<float> text(2, 1);
    SafetensorsWriter writer(folder.path() / sample_file_name(i),
                             {{.name = "latents", .dtype = DType::kF32, .shape = {1, 1, 2, 2}},
                              {.name = "text_embedding", .dtype = DType::kF32, .shape = {1, 2}}});
    writer.append("latents", latents.data(), DType::kF32, 4);
    writer.append("text_embedding", text.data(), DType::kF32, 2);
    writer.commit();
  }
  return std::make_shared<const ClipRows>(std::vector{DatasetConfig{.path = folder.path().string()}}, kStreamDemands,
                                          "datasets");
}

ClipTurns turns_of(std::vector<int64_t> order, std::atomic<int64_t>* asked = nullptr) {
  return [order = std::move(order), asked, at = size_t{0}]() mutable -> std::optional<ClipTurn> {
    if (asked != nullptr) *asked = static_cast<int64_t>(at) + 1;
    if (at == order.size()) return {};
    const auto sample = static_cast<int64_t>(at);
    return ClipTurn{.row = order[at++], .sample = 100 + sample, .timestep = {}};
  };
}

}  // namespace

TEST_CASE("samples come in the order of their turns, with their numbers, to the end") {
  const TemporaryFolder folder;
  const auto rows = rows_in(folder, 4);
  for (const int64_t in_flight : {1, 3, 10}) {
    ClipStream stream(rows, {.text_len = 2}, turns_of({2, 0, 3, 1, 2}), in_flight);
    int64_t number = 100;
    for (const int64_t row : {2, 0, 3, 1, 2}) {
      const std::optional<ClipSample> sample = stream.next();
      REQUIRE(sample);
      CHECK((sample->row == row && sample->sample == number++));
      CHECK(sample->latents == std::vector<float>(4, static_cast<float>(row)));
    }
    CHECK(!stream.next());
    CHECK(!stream.next());
  }
}

TEST_CASE("no more samples than asked for are in flight") {
  const TemporaryFolder folder;
  std::atomic<int64_t> asked = 0;
  ClipStream stream(rows_in(folder, 2), {.text_len = 2}, turns_of(std::vector<int64_t>(100, 1), &asked), 3);
  const auto wait_for = [&](int64_t turns) {
    for (int i = 0; i < 2000 && asked < turns; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(asked == turns);
  };
  wait_for(3);
  CHECK(stream.next()->sample == 100);
  wait_for(4);
}

TEST_CASE("an error comes at its row's turn, and stays") {
  const TemporaryFolder folder;
  ClipStream stream(rows_in(folder, 4, 2), {.text_len = 2}, turns_of({0, 1, 2, 3}), 4);
  CHECK(stream.next()->row == 0);
  CHECK(stream.next()->row == 1);
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS((void)stream.next(), InputError);
}

TEST_CASE("a stream that nobody takes from ends at once") {
  const TemporaryFolder folder;
  const auto rows = rows_in(folder, 2);
  for (int i = 0; i < 20; ++i) const ClipStream stream(rows, {.text_len = 2}, turns_of(std::vector<int64_t>(1000)), 2);
}

TEST_CASE("an epoch has every row once, each epoch in another order, or all in file order") {
  std::vector<int64_t> every(100);
  std::iota(every.begin(), every.end(), 0);
  CHECK(order_of_epoch(100, RowOrder::kFile, 3, 5) == every);
  const std::vector<int64_t> first = order_of_epoch(100, RowOrder::kShuffled, 3, 0);
  CHECK(first == order_of_epoch(100, RowOrder::kShuffled, 3, 0));
  CHECK(first != order_of_epoch(100, RowOrder::kShuffled, 3, 1));
  CHECK(first != order_of_epoch(100, RowOrder::kShuffled, 4, 0));
  CHECK(first != every);
  std::vector<int64_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == every);
}

}  // namespace spillway::data
