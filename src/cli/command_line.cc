#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/home.h"
#include "base/text.h"
#include "cli/completion/completed_command.h"
#include "cli/fetching.h"
#include "cli/option_names.h"
#include "model/model_folder.h"

namespace spillway {
namespace {

// "--out" of "--out FOLDER"
std::string option_name(std::string_view what) { return std::string(what.substr(0, what.find(' '))); }

// An option or argument that takes text: a path has the home folder in place of `~`, as `--out=~/x` comes with it.
CLI::Option* add_text(CLI::App& app, std::string_view what, std::string& value) {
  CLI::Option* const option = app.add_option(option_name(what), value);
  if (is_path_name(what.substr(what.find(' ') + 1))) option->transform(expand_home);
  return option;
}

std::string with_default(std::string_view help, const std::string& value) {
  return fmt::format("{} (default {})", help, value);
}

// CLI::Range lets NaN through, which is below nothing and above nothing.
CLI::Validator number_in(double least, double most) {
  CLI::Validator range = CLI::Range(least, most);
  return CLI::Validator(
      [range](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && std::isnan(value))
          return fmt::format("Value {} is no number", text);
        return range(text);
      },
      range.get_description());
}

}  // namespace

CommandLine::CommandLine(std::string name, std::string summary)
    : app_(std::make_unique<CLI::App>("", name)),
      help_{.usage = std::move(name), .summary = std::move(summary), .sections = {{}}} {}

CommandLine::~CommandLine() = default;

void CommandLine::section(std::string_view title) { help_.sections.push_back({std::string(title), {}}); }

void CommandLine::list(std::string_view what, std::string_view meaning) {
  help_.sections.back().rows.push_back({std::string(what), std::string(meaning)});
}

void CommandLine::required(std::string_view what, std::string& value, std::string_view help) {
  add_text(*app_, what, value)->required();
  help_.usage += fmt::format(" {}", what);
  list(what, help);
}

void CommandLine::model(std::string& value, std::string_view help, hub::FolderUse use) {
  required("MODEL", value, fmt::format("{}, a GGUF file, or a name of the Hugging Face hub", help));
  named_.push_back({&value, "MODEL", use});
}

void CommandLine::pipeline(std::string& value, std::string_view help) {
  required("MODEL", value, fmt::format("{}, or a name of the Hugging Face hub", help));
  named_.push_back({&value, "MODEL", hub::FolderUse::kModel, ""});
}

void CommandLine::adapter(std::string& value, std::string_view help) { adapter("--adapter", value, help); }

void CommandLine::adapter(std::string_view name, std::string& value, std::string_view help) {
  option(fmt::format("{} FOLDER", name), value, fmt::format("{}: a folder, or a name of the hub", help));
  named_.push_back({&value, name, hub::FolderUse::kAdapter});
}

void CommandLine::required_adapter(std::string& value, std::string_view help) {
  required("--adapter FOLDER", value, fmt::format("{}: a folder, or a name of the hub", help));
  named_.push_back({&value, "--adapter", hub::FolderUse::kAdapter});
}

void CommandLine::option(std::string_view what, std::string& value, std::string_view help) {
  add_text(*app_, what, value);
  list(what, value.empty() ? std::string(help) : with_default(help, value));
}

void CommandLine::option(std::string_view what, uint64_t& value, std::string_view help) {
  app_->add_option(option_name(what), value);
  list(what, with_default(help, fmt::format("{}", value)));
}

void CommandLine::option(std::string_view what, int64_t& value, std::string_view help, int64_t least, int64_t most) {
  app_->add_option(option_name(what), value)->check(CLI::Range(least, most));
  list(what, with_default(help, fmt::format("{}", value)));
}

void CommandLine::option(std::string_view what, double& value, std::string_view help, double least, double most) {
  app_->add_option(option_name(what), value)->check(number_in(least, most));
  list(what, with_default(help, fmt::format("{}", value)));
}

void CommandLine::option(std::string_view what, std::optional<double>& value, std::string_view help, double least,
                         double most) {
  app_->add_option(option_name(what), value)->check(number_in(least, most));
  list(what, help);
}

void CommandLine::options(std::string_view what, std::vector<std::string>& values, std::string_view help) {
  app_->add_option(option_name(what), values)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  list(what, help);
}

void CommandLine::flag(std::string_view what, bool& value, std::string_view help) {
  app_->add_flag(std::string(what), value);
  list(what, help);
}

void CommandLine::exactly_one_of(const std::vector<std::string>& names) {
  CLI::Option_group* group = app_->add_option_group("exactly one of");
  for (const std::string& name : names) group->add_option(app_->get_option(name));
  group->require_option(1);
  std::vector<std::string_view> options;
  for (const HelpSection& section : help_.sections) {
    for (const HelpRow& row : section.rows) {
      if (std::find(names.begin(), names.end(), option_name(row.what)) != names.end()) options.push_back(row.what);
    }
  }
  help_.usage += fmt::format(" ({})", fmt::join(options, " | "));
}

void CommandLine::example(std::string text) { help_.examples.push_back(std::move(text)); }

std::vector<std::string> CommandLine::as_listed(std::span<const std::string> args) const {
  std::vector<std::string> result;
  bool is_value = false;  // of the option before it
  for (const std::string& argument : args) {
    result.push_back(argument);
    if (std::exchange(is_value, false) || !argument.starts_with("--")) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    for (const HelpSection& section : help_.sections) {
      for (const HelpRow& row : section.rows) {
        const std::string name = option_name(row.what);
        if (!is_same_option(name, argument.substr(0, end))) continue;
        result.back().replace(0, end, name);
        is_value = name != row.what && end == argument.size();
      }
    }
  }
  return result;
}

void CommandLine::fail_unexpected(const std::string& argument) const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app_->get_options()) names.push_back(option->get_name());
  const std::string_view near = nearest_name(argument, std::vector<std::string_view>(names.begin(), names.end()));
  throw input_error(app_->get_name(), "expected arguments as in `{} --help`, got {}; {}", app_->get_name(),
                    quote(argument), near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
}

bool CommandLine::parse(std::span<const std::string> args) {
  try {
    const std::vector<std::string> listed = as_listed(args);
    app_->parse(std::vector<std::string>(listed.rbegin(), listed.rend()));
  } catch (const CLI::CallForHelp&) {
    help_.usage += " [OPTION ...]";
    show_help(help_);
    return false;
  } catch (const CLI::ExtrasError&) {
    fail_unexpected(app_->remaining().front());
  } catch (const CLI::ParseError& error) {
    throw input_error(app_->get_name(), "expected arguments as in `{} --help`, got: {}; correct them", app_->get_name(),
                      error.what());
  }
  for (const Named& one : named_) {
    *one.value = model_folder(*one.value, one.where, one.use, fetching_lookup(), one.component);
    if (!one.value->empty()) check_model_folder(*one.value, one.where, one.use);
  }
  return true;
}

}  // namespace spillway
