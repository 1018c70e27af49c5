// The README.md of a trained model or adapter.
#pragma once

#include <string>

#include "train/job.h"

namespace spillway::train {

// Markdown with the front matter that the Hugging Face hub reads.
[[nodiscard]] std::string model_card(const Job& job);

}  // namespace spillway::train
