// Tallies the lengths of rows before anything is cut or dropped.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace spillway::data {

// The number of rows with `from` to `to` tokens.
struct LengthBin {
  int64_t from = 0, to = 0, count = 0;
  bool is_over = false;  // longer than the limit
  bool operator==(const LengthBin&) const = default;
};

class LengthTally {
 public:
  LengthTally() = default;
  // `limit` is the largest number of tokens of a row that stays whole.
  explicit LengthTally(int64_t limit) : limit_(limit) {}

  void add(int64_t length);
  [[nodiscard]] int64_t limit() const { return limit_; }
  [[nodiscard]] int64_t rows() const;
  [[nodiscard]] int64_t rows_over() const;
  // Returns the bins: powers of two, from that of the shortest to that of the longest row. A bin that the limit lies in
  // is split in two.
  [[nodiscard]] std::vector<LengthBin> bins() const;
  // Returns the least power of two above the limit that at most this share of the rows exceed; 0 if at most this share
  // exceed the limit itself.
  [[nodiscard]] int64_t length_for(double share_over) const;

 private:
  friend nlohmann::ordered_json to_json(const LengthTally& tally);
  friend LengthTally lengths_from_json(const nlohmann::ordered_json& json);

  static constexpr size_t kWidths = 64;  // of a length in bits
  int64_t limit_ = 0;
  std::array<int64_t, kWidths> within_{}, over_{};
};

// The keys are "sequence_len", "bins": [{"from", "to", "rows", "longer"}]. lengths_from_json() throws the exceptions of
// the JSON library.
[[nodiscard]] nlohmann::ordered_json to_json(const LengthTally& tally);
[[nodiscard]] LengthTally lengths_from_json(const nlohmann::ordered_json& json);

}  // namespace spillway::data
