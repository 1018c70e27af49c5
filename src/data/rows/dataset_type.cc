#include "data/rows/dataset_type.h"

#include "data/rows/preference_rows.h"
#include "data/rows/row_builder.h"

namespace spillway::data {

void check_dataset_type(const DatasetConfig& config, Objective objective) {
  if (objective == Objective::kText) {
    check_text_type(config);
  } else {
    check_preference_type(config, objective);
  }
}

}  // namespace spillway::data
