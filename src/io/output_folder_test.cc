#include "io/output_folder.h"

#include <doctest/doctest.h>

#include <array>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/folder_record.h"
#include "io/step_lines.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

void publish_output(const fs::path& target, std::string_view command) {
  AtomicFolder atomic(target, command);
  write_file(atomic.path() / "config.json", "{}");
  fs::create_directory(atomic.path() / "sub");
  write_file(atomic.path() / "sub" / "a", "a");
  atomic.publish();
}

SharedOutput training_in(const fs::path& folder, std::span<const fs::path> known = {}) {
  return {"output_dir", folder, "train", [](std::string_view name) { return name == "model" || name == "log"; }, known};
}

}  // namespace

TEST_CASE("a folder is replaceable where it is new, empty or as the same command wrote it") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto check = [&] { check_replaceable("--out", out, "merge"); };
  check();
  fs::create_directory(out);
  check();
  publish_output(out, "merge");
  check();
  const auto refuses = [&](const char* what) { CHECK_THROWS_WITH_AS(check(), doctest::Contains(what), InputError); };
  write_file(out / "notes", "mine");
  refuses("or one that `spillway merge` wrote, got one with 'notes'; choose another");
  fs::remove(out / "notes");
  write_file(out / "sub/b", "mine");
  refuses("got one with 'sub/b'");
  fs::remove(out / "sub/b");
  fs::create_symlink("/", out / "link");
  refuses("got one with 'link'");
  fs::remove(out / "link");
  write_file(out / "config.json", "[]");
  refuses("'config.json' was changed");
  publish_output(out, "import");
  refuses("got one with '.spillway.json'");
  fs::remove_all(out);
  write_file(out, "");
  refuses("got a file");
}

TEST_CASE("an output that is an input or holds one is found by device and inode") {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "models" / "base", rows = folder.path() / "rows.jsonl";
  fs::create_directories(model);
  write_file(rows, "");
  fs::create_directory_symlink(folder.path() / "models", folder.path() / "link");
  fs::create_hard_link(rows, folder.path() / "same.jsonl");
  fs::create_directory(folder.path() / "links");
  fs::create_directory_symlink(model, folder.path() / "links/base");
  const std::array inputs = {CommandInput{"base_model", model}, CommandInput{"datasets", rows},
                             CommandInput{"lora_model_dir", folder.path() / "links/base"}, CommandInput{"none", ""}};
  const auto refuses = [&](const fs::path& output, const char* what) {
    CAPTURE(output.string());
    CHECK_THROWS_WITH_AS(check_apart("--out", output, inputs), doctest::Contains(what), InputError);
  };
  refuses(model / ".", "which is base_model");
  refuses(folder.path() / "models", "which holds base_model");
  refuses(folder.path() / "link/", "which holds base_model");
  refuses(folder.path() / "link/base", "which is base_model");
  refuses(folder.path() / "links", "which holds lora_model_dir");
  refuses(folder.path() / "same.jsonl", "which is datasets");
  refuses(folder.path(), "holds");
  write_file(model / "config.json", "{}");
  refuses(folder.path() / "link/base/config.json", "is part of base_model");
  check_apart("--html", model / "new.html", inputs);
  check_apart("--out", folder.path() / "new", inputs);
  fs::create_directories(model / "below");
  check_apart("--out", model / "below", inputs);
}

TEST_CASE("a shared folder keeps what others have there, and its command writes over nothing of theirs") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const auto refuses = [&](const char* what) {
    CHECK_THROWS_WITH_AS(training_in(out), doctest::Contains(what), InputError);
  };
  (void)training_in(out);
  fs::create_directories(out / "scratch");
  refuses("got one with 'scratch'");
  const std::array known = {out / "scratch" / "disk"};
  fs::create_directory(known[0]);
  publish_output(out / "checkpoint-1", "train");
  SharedOutput output = training_in(out, known);
  output.begin();
  write_file(out / "model", "as it was written");
  write_file(out / "notes", "mine");
  output.finish();
  (void)training_in(out);
  CHECK(read_record(out)->files.size() == 1);
  write_file(out / "model", "edited");
  refuses("'model' was changed");
  output.finish();
  write_file(out / "log", "mine");
  refuses("got one with 'log'");
}

TEST_CASE("of a run that was killed the names that it wrote are its own, and no others") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  fs::create_directory(out);
  {
    SharedOutput first = training_in(out);
    first.begin();
    write_file(out / "model", "of the first run");
    first.finish();
  }
  {
    SharedOutput killed = training_in(out);
    killed.begin();
    const StepLines log(out / "log", 0);
    write_file(out / "notes", "of no run");
  }
  CHECK(!read_record(out)->is_complete);
  write_file(out / "log", "cut in the middle of");
  (void)training_in(out);
  write_file(out / "model", "somebody's");  // the killed run had not come to it
  CHECK_THROWS_WITH_AS(training_in(out), doctest::Contains("'model' was changed"), InputError);
  fs::remove(out / "model");
  {
    SharedOutput killed = training_in(out);
    killed.begin();
  }
  write_file(out / "model", "somebody's");
  CHECK_THROWS_WITH_AS(training_in(out), doctest::Contains("got one with 'model'"), InputError);
}

TEST_CASE("a README that was edited or put there is its user's, and keeps no run from the folder") {
  const TemporaryFolder folder;
  const auto in_folder = [&] {
    return SharedOutput("output_dir", folder.path(), "train", [](std::string_view name) { return name == "README.md"; },
                        {});
  };
  SharedOutput output = in_folder();
  output.begin();
  output.finish();
  write_file(folder.path() / "README.md", "put there");
  SharedOutput second = in_folder();
  second.begin();
  second.finish();
  write_file(folder.path() / "README.md", "edited");
  CHECK_NOTHROW(in_folder());
}

TEST_CASE("a file or a link to nothing in the place of a checkpoint is refused before the run") {
  const TemporaryFolder folder;
  SharedOutput output = training_in(folder.path());
  output.begin();
  output.finish();
  const auto refuses = [&](const char* name) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(training_in(folder.path()), doctest::Contains("expected a checkpoint's folder in output_dir"),
                         InputError);
    fs::remove(folder.path() / name);
  };
  write_file(folder.path() / "checkpoint-8", "");
  refuses("checkpoint-8");
  fs::create_symlink("nothing", folder.path() / "checkpoint-12");
  refuses("checkpoint-12");
  write_file(folder.path() / "checkpoint-notes", "");
  fs::create_directory(folder.path() / "elsewhere");
  fs::create_directory_symlink("elsewhere", folder.path() / "checkpoint-4");
  CHECK_NOTHROW(training_in(folder.path()));
}

TEST_CASE("a run that leaves nothing leaves no record") {
  const TemporaryFolder folder;
  SharedOutput output = training_in(folder.path());
  output.begin();
  output.abandon();
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a file that is written has a folder, and two results have two files") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a";
  CHECK_NOTHROW(check_writable_place("--html", file));
  write_file(file, "");
  CHECK_NOTHROW(check_writable_place("--html", file));
  CHECK_THROWS_WITH_AS(check_writable_place("--html", file / "b"), doctest::Contains("create the folder"), InputError);
  CHECK_THROWS_WITH_AS(check_writable_place("--html", folder.path()), doctest::Contains("choose another name"),
                       InputError);

  fs::create_directory_symlink(folder.path(), folder.path() / "link");
  CHECK_NOTHROW(check_different_files("--out", file, "--gif", folder.path() / "b"));
  CHECK_NOTHROW(check_different_files("--out", "", "--gif", ""));
  for (const fs::path& other : {file, folder.path() / "." / "a", folder.path() / "link" / "a"})
    CHECK_THROWS_WITH_AS(check_different_files("--out", file, "--gif", other),
                         doctest::Contains("[--gif] expected another file than that of --out"), InputError);
}
