#include "cli/command_line.h"

#include "base/error.h"

namespace spillway {

bool parse_command_line(CLI::App& app, std::span<const std::string> args) {
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw input_error(app.get_name(), "expected arguments as in `{} --help`, got: {}; correct them", app.get_name(),
                      error.what());
  }
  return true;
}

}  // namespace spillway
