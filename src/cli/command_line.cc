#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "base/error.h"

namespace spillway {

CommandLine::CommandLine(std::string name, std::string summary)
    : app_(std::make_unique<CLI::App>(std::move(summary), std::move(name))) {}

CommandLine::~CommandLine() = default;

void CommandLine::required(std::string name, std::string& value, std::string help) {
  app_->add_option(std::move(name), value, std::move(help))->required();
}

void CommandLine::option(std::string name, std::string& value, std::string help) {
  CLI::Option* added = app_->add_option(std::move(name), value, std::move(help));
  if (!value.empty()) added->capture_default_str();
}

void CommandLine::option(std::string name, uint64_t& value, std::string help) {
  app_->add_option(std::move(name), value, std::move(help));
}

void CommandLine::option(std::string name, int64_t& value, std::string help, int64_t least, int64_t most) {
  app_->add_option(std::move(name), value, std::move(help))->check(CLI::Range(least, most));
}

void CommandLine::option(std::string name, double& value, std::string help, double least, double most) {
  app_->add_option(std::move(name), value, std::move(help))->check(CLI::Range(least, most));
}

void CommandLine::flag(std::string name, bool& value, std::string help) {
  app_->add_flag(std::move(name), value, std::move(help));
}

void CommandLine::exactly_one_of(const std::vector<std::string>& names) {
  CLI::Option_group* group = app_->add_option_group("exactly one of");
  for (const std::string& name : names) group->add_option(app_->get_option(name));
  group->require_option(1);
}

bool CommandLine::parse(std::span<const std::string> args) {
  try {
    app_->parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app_->help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw input_error(app_->get_name(), "expected arguments as in `{} --help`, got: {}; correct them", app_->get_name(),
                      error.what());
  }
  return true;
}

}  // namespace spillway
