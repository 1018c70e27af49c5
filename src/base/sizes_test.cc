#include "base/sizes.h"

#include <doctest/doctest.h>

#include <array>

using namespace spillway;

TEST_CASE("vectors and strings of a signed size") {
  const int32_t three = 3;
  CHECK(make_vector<int>(three) == std::vector<int>{0, 0, 0});
  CHECK(make_vector<float>(2, 1.5f) == std::vector<float>{1.5f, 1.5f});
  CHECK(make_vector<bool>(int64_t{0}).empty());
  CHECK(repeated('-', three) == "---");
  CHECK(repeated('-', 0).empty());

  std::vector<int> items = {1, 2};
  reserve(items, 100);
  CHECK(items.capacity() >= 100);
  resize(items, three);
  CHECK(items == std::vector<int>{1, 2, 0});
  resize(items, 4, 7);
  CHECK(items == std::vector<int>{1, 2, 0, 7});
  append_repeated(items, 2, 9);
  CHECK(items == std::vector<int>{1, 2, 0, 7, 9, 9});
  resize(items, 1);
  CHECK(items == std::vector<int>{1});
}

TEST_CASE("spans of a signed size show what they are made of") {
  std::vector<int> items = {0, 1, 2, 3, 4};
  subspan_of(items, 1, 2)[1] = 20;
  CHECK(items == std::vector<int>{0, 1, 20, 3, 4});
  CHECK(subspan_of(items, 3).size() == 2);
  CHECK(subspan_of(items, 5).empty());
  CHECK(first_of(items, 2).data() == items.data());
  CHECK(first_of(items, 2).size() == 2);
  CHECK(span_of(items.data() + 4, 1)[0] == 4);

  const std::array<int, 3> fixed = {5, 6, 7};
  static_assert(std::is_same_v<decltype(subspan_of(fixed, 1)), std::span<const int>>);
  CHECK(subspan_of(fixed, 1)[0] == 6);
  const std::span<int> span = items;
  CHECK(first_of(span, 1).data() == items.data());
}

TEST_CASE("memory of a signed size is copied and filled, and nothing beside it") {
  std::array<uint16_t, 4> to = {1, 1, 1, 1};
  const std::array<uint16_t, 4> from = {2, 3, 4, 5};
  copy_elems(to.data(), from.data(), 2);
  CHECK(to == std::array<uint16_t, 4>{2, 3, 1, 1});
  copy_memory(to.data() + 2, from.data() + 2, 2);
  CHECK(to == std::array<uint16_t, 4>{2, 3, 4, 1});
  fill_memory(to.data(), 0xFF, 4);
  CHECK(to == std::array<uint16_t, 4>{0xFFFF, 0xFFFF, 4, 1});
  fill_memory(to.data(), 0, 0);
  CHECK(to[0] == 0xFFFF);
}
