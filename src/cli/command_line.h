// Declares a command's arguments: their names, the variables for their values, and their help.
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

// Values belong to the caller and keep their defaults, which --help shows, if the user does not give them. Hides CLI11,
// which is slow to compile.
class CommandLine {
 public:
  CommandLine(std::string name, std::string summary);
  ~CommandLine();

  // Lists the following options below this title.
  void section(std::string_view title);

  // Declares "--out FOLDER", an option and the name of its value; a name without dashes is a positional argument.
  void required(std::string_view what, std::string& value, std::string_view help);
  // Declares the required MODEL: a folder, a GGUF file or a hub name, which parse() replaces with a folder
  // (model/model_folder.h) after downloading it if necessary.
  void model(std::string& value, std::string_view help, hub::FolderUse use = hub::FolderUse::kModel);
  // The same for a whole pipeline instead of one of its models.
  void pipeline(std::string& value, std::string_view help);
  // Declares --adapter FOLDER, or an option of a name that outlives this object: a folder, or a hub name as for MODEL.
  void adapter(std::string& value, std::string_view help);
  void adapter(std::string_view name, std::string& value, std::string_view help);
  void required_adapter(std::string& value, std::string_view help);
  void option(std::string_view what, std::string& value, std::string_view help);
  void option(std::string_view what, uint64_t& value, std::string_view help);
  void option(std::string_view what, int64_t& value, std::string_view help, int64_t least, int64_t most);
  void option(std::string_view what, double& value, std::string_view help, double least, double most);
  void option(std::string_view what, std::optional<double>& value, std::string_view help, double least, double most);
  // Declares an option that may be given several times.
  void options(std::string_view what, std::vector<std::string>& values, std::string_view help);
  void flag(std::string_view what, bool& value, std::string_view help);

  // Requires the user to give exactly one of these options, which must be declared already.
  void exactly_one_of(const std::vector<std::string>& names);

  // Adds a command line to the end of the help.
  void example(std::string text);

  // Parses the arguments after the command's name; an option's name may have _ in place of -. On --help it prints the
  // help on standard output and returns false. Throws InputError at the command's name for invalid arguments.
  [[nodiscard]] bool parse(std::span<const std::string> args);

 private:
  void list(std::string_view what, std::string_view meaning);
  // Returns the arguments with the names of options spelled as they are declared.
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
