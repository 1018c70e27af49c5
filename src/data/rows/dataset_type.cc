#include "data/rows/dataset_type.h"

#include "data/rows/preference_rows.h"
#include "data/rows/prompts.h"
#include "data/rows/row_builder.h"

namespace spillway::data {

void check_dataset_type(const DatasetConfig& config, Objective objective, std::string_view where) {
  if (has_completions(objective)) return check_preference_type(config, objective, where);
  if (objective == Objective::kPrompts) return check_prompt_type(config, where);
  if (config.type.name == kVideoLatents && objective == Objective::kText) return;
  return objective == Objective::kSteps ? check_steps_type(config, where) : check_text_type(config, where);
}

}  // namespace spillway::data
