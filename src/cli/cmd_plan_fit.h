// `spillway plan --model NAME`: tells whether a model would fit, before there are any files.
#pragma once

#include <span>
#include <string>

#include "cli/config_arguments.h"

namespace spillway {

// REQUIRES: --model is given, and no config.
int plan_fit(const ConfigArguments& arguments);

}  // namespace spillway
