// What a command takes: its arguments by name, where their values go, and what --help says of them.
//
//   CommandLine line("spillway merge", "Folds a LoRA adapter into its base and writes a complete model folder.");
//   line.required("MODEL", model, "the base's folder");
//   line.required("--out FOLDER", out, "the folder to write");
//   line.flag("--json", json, "print one JSON document");
//   line.example("spillway merge ./base --adapter ./adapter --out ./merged");
//   if (!line.parse(args)) return kDone;
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help_page.h"
#include "hub/lookup.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own
class App;
}

namespace spillway {

// Values live with the caller and keep their defaults, which --help shows, where the user does not give them. CLI11
// does the work, behind this class because it is slow to compile.
class CommandLine {
 public:
  CommandLine(std::string name, std::string summary);
  ~CommandLine();

  // What follows is listed below this title.
  void section(std::string_view title);

  // "--out FOLDER": the option and what stands for its value; a name without dashes is a positional argument.
  void required(std::string_view what, std::string& value, std::string_view help);
  // The required MODEL: a folder, a GGUF file or a name of the hub; parse() replaces the latter by a folder
  // (model/model_folder.h), and fetches what is not on this machine.
  void model(std::string& value, std::string_view help, hub::FolderUse use = hub::FolderUse::kModel);
  // The same, where all of a pipeline is wanted and not one of its models.
  void pipeline(std::string& value, std::string_view help);
  // --adapter FOLDER, or an option of a name that outlives this: a folder or a name of the hub, in the same way.
  void adapter(std::string& value, std::string_view help);
  void adapter(std::string_view name, std::string& value, std::string_view help);
  void required_adapter(std::string& value, std::string_view help);
  void option(std::string_view what, std::string& value, std::string_view help);
  void option(std::string_view what, uint64_t& value, std::string_view help);
  void option(std::string_view what, int64_t& value, std::string_view help, int64_t least, int64_t most);
  void option(std::string_view what, double& value, std::string_view help, double least, double most);
  void option(std::string_view what, std::optional<double>& value, std::string_view help, double least, double most);
  // An option that may be given several times.
  void options(std::string_view what, std::vector<std::string>& values, std::string_view help);
  void flag(std::string_view what, bool& value, std::string_view help);

  // The user has to give exactly one of these options, which are there already.
  void exactly_one_of(const std::vector<std::string>& names);

  // A command line for the end of the help.
  void example(std::string text);

  // Parses the arguments after the command's name; an option's name may have _ in place of -. Answers --help on
  // standard output and then returns false. Throws InputError where they are wrong, at the command's name.
  [[nodiscard]] bool parse(std::span<const std::string> args);

 private:
  void list(std::string_view what, std::string_view meaning);
  // Returns the arguments with the names of options as they are listed.
  [[nodiscard]] std::vector<std::string> as_listed(std::span<const std::string> args) const;
  [[noreturn]] void fail_unexpected(const std::string& argument) const;

  std::unique_ptr<CLI::App> app_;
  HelpPage help_;
  struct Named {
    std::string* value;
    std::string_view where;
    hub::FolderUse use;
    std::string_view component = "transformer";  // of a pipeline
  };
  std::vector<Named> named_;  // what stands for folders
};

}  // namespace spillway
