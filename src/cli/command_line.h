// What a command takes: its arguments by name, where their values go, and what --help says of them.
//
//   CommandLine line("spillway merge", "Fold a LoRA adapter into its base and write a complete model folder.");
//   line.required("MODEL", model, "the base's folder");
//   line.flag("--json", json, "print one JSON document");
//   if (!line.parse(args)) return kDone;
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own
class App;
}

namespace spillway {

// Values live with the caller and keep their defaults where the user does not give them. CLI11 does the work, behind
// this class because it is slow to compile.
class CommandLine {
 public:
  CommandLine(std::string name, std::string summary);
  ~CommandLine();

  // A name without dashes stands for a positional argument.
  void required(std::string name, std::string& value, std::string help);
  void option(std::string name, std::string& value, std::string help);
  void option(std::string name, uint64_t& value, std::string help);
  void option(std::string name, int64_t& value, std::string help, int64_t least, int64_t most);
  void option(std::string name, double& value, std::string help, double least, double most);
  void flag(std::string name, bool& value, std::string help);

  // The user has to give exactly one of these options.
  void exactly_one_of(const std::vector<std::string>& names);

  // Parses the arguments after the command's name. Answers --help on standard output and then returns false. Throws
  // InputError where they are wrong, at the command's name.
  [[nodiscard]] bool parse(std::span<const std::string> args);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace spillway
