// How a video model's loss depends on the noise: most of what differs between two steps is which timesteps were drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

class LossByTimestep {
 public:
  static constexpr size_t kParts = 10;  // of the timesteps from 0 to 1000

  // The mean forgets, so that it is of the model as it is: behind a hundred samples the newest counts a hundredth.
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
