// Looks for a library in folders as pip leaves them. It is a copy of zlib under a name that no other has.
#include "backend/gpu_library.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "tests/support/environment.h"

namespace spillway::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libspillway-looks-for-this.so.13";

// Has nothing of the machine's own among the places.
struct Places {
  TemporaryFolder folder;
  fs::path root = fs::canonical(folder.path());
  testing::Environment environment{{{"HOME", root / "home"},
                                    {"LD_LIBRARY_PATH", {}},
                                    {"CUDA_HOME", {}},
                                    {"CUDA_PATH", {}},
                                    {"VIRTUAL_ENV", {}},
                                    {"CONDA_PREFIX", {}}}};

  // Puts the library into a folder, and returns its path.
  std::string lay(const fs::path& place) const {
    static const std::string zlib = Library("zlib", "libz.so.1", "install zlib1g").path();
    fs::create_directories(root / place);
    fs::copy_file(zlib, root / place / kFile);
    return root / place / kFile;
  }
  [[nodiscard]] Library open(const fs::path& program) const {
    return {"a library", kFile, "install it", root / program};
  }
};

TEST_CASE("a program that pip has laid finds NVIDIA's wheels beside it, in every layout of Python's") {
  for (const auto& [program, wheel] : std::initializer_list<std::pair<const char*, const char*>>{
           {"venv/bin/spillway", "venv/lib/python3.12/site-packages/nvidia/cu13/lib"},
           {"home/.local/bin/spillway", "home/.local/lib/python3.9/site-packages/nvidia/cudnn/lib"},
           {"usr/local/bin/spillway", "usr/local/lib/python3.11/dist-packages/nvidia/nccl/lib"},
           {"usr/bin/spillway", "usr/lib/python3/dist-packages/nvidia/cu13/lib"},
           {"fedora/bin/spillway", "fedora/lib64/python3.13/site-packages/nvidia/cu13/lib"},
           {"target/bin/spillway", "target/nvidia/cu13/lib"},
           {"[a-z]*?/bin/spillway", "[a-z]*?/lib/python3.12/site-packages/nvidia/cu13/lib"}}) {
    CAPTURE(program);
    const Places places;
    const std::string path = places.lay(wheel);
    const Library library = places.open(program);
    CHECK(library.path() == path);
    const char* (*version)() = nullptr;
    library.find("zlibVersion", version);
    CHECK(version()[0] == '1');
    CHECK_THROWS_WITH_AS(library.find("zlibVersion2", version),
                         "[a library] expected a version with zlibVersion2, got an older one; install it",
                         MachineError);
  }
}

TEST_CASE("LD_LIBRARY_PATH is before the wheels beside a program, and these are before all else") {
  const Places places;
  const auto open = [&](const testing::Variables& variables) {
    const testing::Environment more(variables);
    return places.open("venv/bin/spillway").path();
  };
  const fs::path active = places.root / "active";
  const std::string user = places.lay("home/.local/lib/python3.11/site-packages/nvidia/cu13/lib");
  CHECK(open({}) == user);
  const std::string environment = places.lay("active/lib/python3.11/site-packages/nvidia/cu13/lib");
  CHECK(open({{"VIRTUAL_ENV", active}}) == environment);
  CHECK(open({{"CONDA_PREFIX", active}}) == environment);
  const std::string toolkit = places.lay("toolkit/lib64");
  CHECK(open({{"CUDA_HOME", places.root / "toolkit"}, {"VIRTUAL_ENV", active}}) == toolkit);
  const std::string beside = places.lay("venv/lib/python3.11/site-packages/nvidia/cu13/lib");
  CHECK(open({{"CUDA_PATH", places.root / "toolkit"}}) == beside);
  const std::string named = places.lay("named");
  CHECK(open({{"LD_LIBRARY_PATH", "/nowhere::" + (places.root / "named").string()}}) == named);
}

TEST_CASE("a link to a program that pip has laid is that program") {
  const Places places;
  const std::string path = places.lay("venv/lib/python3.12/site-packages/nvidia/cu13/lib");
  fs::create_directories(places.root / "venv/bin");
  std::ofstream(places.root / "venv/bin/spillway") << "a program";
  fs::create_symlink("venv/bin/spillway", places.root / "spillway");
  CHECK(places.open("spillway").path() == path);
}

TEST_CASE("a library that is nowhere, or cannot be opened where it is, is an error that says so") {
  const Places places;
  CHECK_THROWS_WITH_AS(places.open("venv/bin/spillway"),
                       "[a library] expected libspillway-looks-for-this.so.13, got 'libspillway-looks-for-this.so.13: "
                       "cannot open shared object file: No such file or directory'; install it",
                       MachineError);
  const fs::path broken = places.root / "venv/lib/python3.12/site-packages/nvidia/cu13/lib";
  fs::create_directories(broken);
  std::ofstream(broken / kFile) << "no library";
  const std::string problem = (broken / kFile).string() + ": file too short";
  CHECK_THROWS_WITH_AS(places.open("venv/bin/spillway"), doctest::Contains(problem.c_str()), MachineError);
  const std::string whole = places.lay("home/.local/lib/python3.12/site-packages/nvidia/cu13/lib");
  CHECK(places.open("venv/bin/spillway").path() == whole);
}

TEST_CASE("versions of libraries are shown with dots") {
  CHECK(version_text(130002) == "13.0.2");
  CHECK(version_text(92600) == "9.26.0");
}

}  // namespace
}  // namespace spillway::cuda
