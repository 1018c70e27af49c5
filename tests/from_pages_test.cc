// The commands of docs/from/, the pages for those who come from other trainers.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

// In the repository, whose paths the configs have.
class InRepository {
 public:
  InRepository() { fs::current_path(source_folder()); }
  ~InRepository() { fs::current_path(before_); }
  InRepository(const InRepository&) = delete;
  InRepository& operator=(const InRepository&) = delete;

 private:
  fs::path before_ = fs::current_path();
};

// Returns the arguments of the page's last `spillway train` with a model of random weights, behind the program.
std::vector<std::string> trained_command(const fs::path& page) {
  std::string text = read_file(page, 1 << 20);
  for (size_t at = 0; (at = text.find("\\\n", at)) != std::string::npos;) text.replace(at, 2, " ");
  const std::string begin = "\n    spillway ", model = " --base_model build/tiny ";
  const size_t at = text.rfind(begin, text.find(model));
  REQUIRE(at != std::string::npos);
  std::istringstream words(text.substr(at + begin.size(), text.find('\n', at + 1) - at - begin.size()));
  std::vector<std::string> result;
  for (std::string word; words >> std::ws;) {
    if (words.peek() == '\'') {
      words.get();
      std::getline(words, word, '\'');
    } else {
      words >> word;
    }
    result.push_back(word);
  }
  return result;
}

}  // namespace

TEST_CASE("the config of each page for those who come from elsewhere trains as the page says") {
  const TemporaryFolder folder;
  const InRepository repository;
  const std::string model = (folder.path() / "tiny").string();
  REQUIRE(std::system(("python3 tools/make_random_model.py tiny " + model + " > /dev/null").c_str()) == 0);
  size_t pages = 0;
  for (const auto& page : fs::directory_iterator("docs/from")) {
    CAPTURE(page.path().string());
    std::vector<std::string> arguments = trained_command(page.path());
    for (std::string& argument : arguments)
      if (argument == "build/tiny") argument = model;
    const fs::path out = folder.path() / page.path().stem();
    const Finished run = run_spillway(arguments + std::vector<std::string>{"--output_dir", out.string()});
    CAPTURE(run.err);
    CHECK(run.status == 0);
    CHECK(fs::exists(out / "adapter_model.safetensors"));
    ++pages;
  }
  CHECK(pages == 6);
}
