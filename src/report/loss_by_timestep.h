// The loss of a video model by noise level: most of the difference between two steps is due to the timesteps that were
// drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

class LossByTimestep {
 public:
  static constexpr size_t kParts = 10;  // of the timesteps from 0 to 1000

  // A moving mean, so that it follows the model: after a hundred samples the newest has a weight of a hundredth.
  struct Part {
    double loss = 0;
    int64_t samples = 0;
  };

  void add(double timestep, double loss);
  [[nodiscard]] const std::array<Part, kParts>& parts() const { return parts_; }
  [[nodiscard]] bool empty() const { return is_empty_; }

 private:
  std::array<Part, kParts> parts_;
  bool is_empty_ = true;
};

}  // namespace spillway
