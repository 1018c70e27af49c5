// `spillway plan --model NAME`: will it fit, before there is any file.
#pragma once

#include <span>
#include <string>

#include "cli/config_arguments.h"

namespace spillway {

// REQUIRES: --model is given, and no config.
int plan_fit(const ConfigArguments& arguments);

}  // namespace spillway
