// `spillway quantize MODEL --out FOLDER [--type nf4|fp4|int8] [--double-quant true|false] [--dtype TYPE]`
#pragma once

#include <span>
#include <string>

namespace spillway {

int cmd_quantize(std::span<const std::string> args);

}  // namespace spillway
