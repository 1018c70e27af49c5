// How long rows are, before anything is cut or dropped.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace spillway::data {

// How many rows have at least `from` and at most `to` tokens.
struct LengthBin {
  int64_t from = 0, to = 0, count = 0;
  bool is_over = false;  // longer than the limit
  bool operator==(const LengthBin&) const = default;
};

class LengthTally {
 public:
  LengthTally() = default;
  // `limit`: the most tokens of a row that stays whole.
  explicit LengthTally(int64_t limit) : limit_(limit) {}

  void add(int64_t length);
  [[nodiscard]] int64_t limit() const { return limit_; }
  [[nodiscard]] int64_t rows() const;
  [[nodiscard]] int64_t rows_over() const;
  // By powers of two, from the bin of the shortest to that of the longest; one that the limit lies in is two.
  [[nodiscard]] std::vector<LengthBin> bins() const;
  // The least power of two above the limit that no more than this share of the rows are longer than; 0 where the limit
  // is such.
  [[nodiscard]] int64_t length_for(double share_over) const;

 private:
  friend nlohmann::ordered_json to_json(const LengthTally& tally);
  friend LengthTally lengths_from_json(const nlohmann::ordered_json& json);

  static constexpr size_t kWidths = 64;  // of a length in bits
  int64_t limit_ = 0;
  std::array<int64_t, kWidths> within_{}, over_{};
};

// {"sequence_len", "bins": [{"from", "to", "rows", "longer"}]}; the second throws what the JSON library throws.
[[nodiscard]] nlohmann::ordered_json to_json(const LengthTally& tally);
[[nodiscard]] LengthTally lengths_from_json(const nlohmann::ordered_json& json);

}  // namespace spillway::data
