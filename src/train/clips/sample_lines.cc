#include "train/clips/sample_lines.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace spillway::train {

std::string sample_line(const SampleSeen& sample) {
  return json_text(nlohmann::ordered_json{{"step", sample.step},
                                          {"micro_step", sample.micro_step},
                                          {"row", sample.row},
                                          {"timestep", sample.timestep},
                                          {"sigma", sample.sigma},
                                          {"text_dropped", sample.text_dropped},
                                          {"loss", sample.loss}}) +
         "\n";
}

}  // namespace spillway::train
