// The scripts of `spillway completion`, run by the shells themselves and compared with what --help prints.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "cli/commands.h"
#include "tests/support/captured.h"

using namespace spillway;

namespace {

std::string output_of(std::vector<std::string> args) {
  const Captured captured = capture([&] { return run_command_line(args); });
  REQUIRE(captured.status == 0);
  REQUIRE(captured.err.empty());
  return captured.out;
}

// The output of a shell command, and whether it succeeded.
struct Said {
  bool is_fine = false;
  std::set<std::string> words;
};

Said shell(const std::string& command) {
  Said said;
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), size);
  said.is_fine = pclose(pipe) == 0;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) said.words.insert(word);
  return said;
}

// Without a shell: asked before the tests begin, to say which are skipped.
bool is_here(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// The words at the beginning of rows of --help or --help-config: "  --out FOLDER   the folder".
std::set<std::string> first_words(const std::string& page, std::string_view prefix) {
  std::set<std::string> words;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::string word = line.substr(0, line.find(' ', 2));
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    word.erase(0, 2);
    if (word.starts_with(prefix)) words.insert(word);
  }
  return words;
}

// The file, ready to be sourced, and what bash makes of a command line that ends in the word to be completed.
struct Bash {
  TemporaryFolder folder;
  std::string script = (folder.path() / "spillway.bash").string();

  Bash() { std::ofstream(script) << output_of({"completion", "bash"}); }
  [[nodiscard]] std::set<std::string> complete(std::string_view line) const {
    const std::string runner = (folder.path() / "runner").string();
    std::ofstream(runner) << fmt::format(
        "compopt() {{ :; }}\nsource {}\nCOMP_WORDS=({})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_spillway\n"
        "printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        script, line);
    const Said said = shell(fmt::format("cd {} && bash {}", folder.path().string(), runner));
    CHECK(said.is_fine);
    return said.words;
  }
};

}  // namespace

TEST_CASE("bash completes every command, and of each the options that its help lists") {
  const Bash bash;
  std::set<std::string> names = {"--help", "--version"};
  for (const Command& command : commands()) names.emplace(command.name);
  CHECK(bash.complete("spillway ''") == names);
  CHECK(bash.complete("spillway pre") == std::set<std::string>{"preprocess"});

  std::set<std::string> keys;
  for (const std::string& key : first_words(output_of({"train", "--help-config"}), ""))
    if (key[0] >= 'a' && key[0] <= 'z' && !key.ends_with('*')) keys.insert("--" + key);
  for (const Command& command : commands()) {
    CAPTURE(std::string(command.name));
    const std::string help = output_of({std::string(command.name), "--help"});
    std::set<std::string> options = first_words(help, "--");
    options.insert("--help");
    const std::set<std::string> said = bash.complete(fmt::format("spillway {} --", command.name));
    if (options.erase("--KEY") == 0) {
      CHECK(said == options);
      continue;
    }
    for (const std::string& option : options) CHECK(said.contains(option));
    for (const std::string& option : said) CHECK((options.contains(option) || keys.contains(option)));
    CHECK(said.contains("--memory.device"));
    CHECK(said.contains("--learning_rate"));
  }
}

TEST_CASE("bash completes folders where an option wants one, and nothing where it wants a number") {
  const Bash bash;
  std::filesystem::create_directory(bash.folder.path() / "merged");
  std::ofstream(bash.folder.path() / "merged.txt") << "x";
  CHECK(bash.complete("spillway merge m --out me") == std::set<std::string>{"merged"});
  CHECK(bash.complete("spillway serve m --port --").empty());
}

TEST_CASE("the scripts for zsh and fish name every option") {
  for (const char* const name : {"zsh", "fish"}) {
    CAPTURE(std::string(name));
    const std::string script = output_of({"completion", name});
    for (const Command& command : commands()) {
      for (const std::string& option : first_words(output_of({std::string(command.name), "--help"}), "--")) {
        if (option == "--KEY") continue;
        const std::string spelled = std::string(name) == "fish" ? "-l " + option.substr(2) + " " : "'" + option + "[";
        CHECK_MESSAGE(script.find(spelled) != std::string::npos, option);
      }
    }
  }
}

TEST_CASE("zsh reads its script without an error" * doctest::skip(!is_here("zsh"))) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "_spillway").string();
  std::ofstream(path) << output_of({"completion", "zsh"});
  CHECK(shell(fmt::format("zsh -n {}", path)).is_fine);
}

TEST_CASE("fish reads its script without an error, and completes a command's options" *
          doctest::skip(!is_here("fish"))) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "spillway.fish").string();
  std::ofstream(path) << output_of({"completion", "fish"});
  CHECK(shell(fmt::format("fish -n {}", path)).is_fine);
  const Said said =
      shell(fmt::format("fish --no-config -c 'source {}; complete -C \"spillway merge m --b\" | cut -f1'", path));
  CHECK(said.words == std::set<std::string>{"--base"});
}

TEST_CASE("another shell is an error that names those there are") {
  const Captured captured = capture([] { return run_command_line(std::vector<std::string>{"completion", "tcsh"}); });
  CHECK(captured.status == 2);
  CHECK(captured.err == "[SHELL] expected bash, zsh or fish, got 'tcsh'; choose one of them\n");
}
