#include "cli/commands.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "base/temporary_folder.h"
#include "cli/cmd_train.h"
#include "cli/help_page.h"
#include "cli/ranks/start_ranks.h"
#include "plan/machine.h"
#include "tests/support/captured.h"
#include "tests/support/cpu_share.h"
#include "tests/support/environment.h"

using namespace spillway;

namespace {

Captured run(std::vector<std::string> args) {
  return capture([&] { return run_command_line(args); });
}

// A config in a folder of its own.
struct ConfigFile {
  TemporaryFolder folder;
  std::string path = (folder.path() / "c.yml").string();

  explicit ConfigFile(std::string_view more = "") {
    std::ofstream(path) << "base_model: m\nlearning_rate: 1e-3\ndatasets: [{path: x.jsonl, type: alpaca}]\n" << more;
  }
};

}  // namespace

TEST_CASE("the help names every command, and so does the error for an unknown one") {
  const Captured help = run({"--help"});
  CHECK(help.status == 0);
  CHECK(help.err.empty());
  const Captured unknown = run({"pln"});
  CHECK(unknown.status == 2);
  CHECK(unknown.out.empty());
  CHECK(unknown.err.find("got 'pln'; did you mean plan?") != std::string::npos);
  for (const Command& command : commands()) {
    CHECK(help.out.find(command.name) != std::string::npos);
    CHECK(unknown.err.find(command.name) != std::string::npos);
  }
  CHECK(run({}).status == 2);
  CHECK(run({"--version"}).out.starts_with("spillway "));
}

TEST_CASE("one of several processes does not train, or do anything else, as if it was alone") {
  const ConfigFile config;
  const auto error = [&](const std::vector<std::string>& args, testing::Variables said) {
    testing::Variables variables = {
        {"OMPI_COMM_WORLD_SIZE", {}}, {"PMI_SIZE", {}}, {"SLURM_STEP_NUM_TASKS", {}}, {"WORLD_SIZE", {}}};
    for (const auto& [name, value] : said) variables[name] = value;
    const testing::Environment environment(variables);
    const Captured result = run(args);
    CHECK(result.status == 2);
    return result.err;
  };
  const std::vector<std::string> train = {"train", config.path};
  CHECK(error(train, {{"WORLD_SIZE", "2"}}).starts_with("[WORLD_SIZE] expected one process, got one of 2"));
  CHECK(error(train, {{"OMPI_COMM_WORLD_SIZE", "2"}})
            .starts_with("[OMPI_COMM_WORLD_RANK] expected a rank of 2, got nothing"));
  const testing::Variables second = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}};
  const std::vector<std::string> three = {config.path, "--ranks", "3"};
  CHECK_THROWS_WITH((void)ranks_asked_for(*training_arguments(three), {.size = 2, .launcher = "mpirun"}, "cpu"),
                    "[--ranks] expected 2, the processes that mpirun started, got 3; change it, or remove it");
  const std::string beside = error({"plan", config.path}, second);
  CHECK(beside.starts_with("[rank 1 on "));
  CHECK(
      beside.ends_with(": spillway plan] expected one process, got one of 2 that mpirun started; start it alone: train "
                       "alone runs on several ranks\n"));
  // The model is not there.
  for (const char* one : {"1", "", "2(x3)"})
    CHECK_FALSE(error(train, {{"OMPI_COMM_WORLD_SIZE", one}}).starts_with("[OMPI"));
}

TEST_CASE("a number of ranks is one") {
  const ConfigFile config;
  for (const char* bad : {"0", "-1", "two", "2.5"}) {
    CHECK(run({"train", config.path, "--ranks", bad}).err ==
          fmt::format("[--ranks] expected a number of processes from 1, or auto, got '{}'; change it\n", bad));
    CHECK(run({"plan", config.path, "--ranks", bad}).err ==
          fmt::format("[--ranks] expected a number of processes from 1 to 1000000, got '{}'; change it\n", bad));
  }
  CHECK(run({"plan", config.path, "--ranks", "1000001"}).err.starts_with("[--ranks] expected "));
  const testing::Environment environment(testing::Variables{{"PATH", "/nowhere"}});
  CHECK(run({"train", config.path, "--ranks", "2"}).err.find("install") != std::string::npos);
}

TEST_CASE("a machine has a rank for each GPU, or for each NUMA node where the CPU trains") {
  struct {
    const char* device;
    int gpus, nodes, ranks;
  } const cases[] = {{"auto", 4, 2, 4}, {"auto", 0, 2, 2},   {"cuda", 4, 2, 4}, {"cpu", 4, 2, 2},
                     {"cpu", 0, 1, 1},  {"cuda:1", 4, 2, 1}, {"cuda", 0, 2, 1}};  // which then says that there is none
  for (const auto& [device, gpus, nodes, ranks] : cases) {
    CAPTURE(std::string(device));
    CHECK(ranks_that_suit(device, gpus, nodes) == ranks);
  }
}

TEST_CASE("a plan is of as many ranks as it is asked for") {
  const ConfigFile config;
  for (const char* ranks : {"1", "8"})
    CHECK(run({"plan", config.path, "--ranks", ranks, "--check-config"}).status == 0);
  CHECK(run({"plan", config.path, "--ranks", "0"})
            .err.starts_with("[--ranks] expected a number of processes from 1 to 1000000, got '0'"));
}

TEST_CASE("an example says in JSON what it wrote") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "shapes").string();
  const Captured result = run({"make-example", "moving-shapes", "--out", out, "--clips", "2", "--json"});
  CHECK(result.status == 0);
  const auto document = nlohmann::json::parse(result.out);
  CHECK(document["out"] == out);
  CHECK(document["clips"] == 2);
}

TEST_CASE("every command explains itself") {
  for (const Command& command : commands()) {
    CAPTURE(std::string(command.name));
    const Captured help = run({std::string(command.name), "--help"});
    CHECK(help.status == 0);
    CHECK(help.err.empty());
    CHECK(help.out.starts_with(fmt::format("usage: spillway {} ", command.name)));
    CHECK(help.out.find(fmt::format("\nExamples\n  spillway {}", command.name)) != std::string::npos);
    CHECK(help.out.find("[Option") == std::string::npos);  // CLI11's word for a group
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
}

TEST_CASE("help lists options below their titles, with their defaults, in one column") {
  const std::string out = run({"generate", "--help"}).out;
  CAPTURE(out);
  CHECK(
      out.starts_with("usage: spillway generate MODEL (--prompt TEXT | --messages FILE.json | --lines FILE.jsonl) "
                      "[OPTION\n       ...]\n\n"));
  CHECK(out.find("\n  MODEL                    the model folder, a GGUF file, or a name of the Hugging Face hub\n") !=
        std::string::npos);
  CHECK(out.find("\nExactly one of\n  --prompt TEXT            the text to continue\n") != std::string::npos);
  CHECK(out.find("\nSampling\n  --max-new-tokens N       stop after so many (default 256)\n") != std::string::npos);
}

TEST_CASE("a meaning that is too long for its line goes on below itself") {
  const std::string word = "meaning ";
  std::string meaning;
  for (int i = 0; i < 12; ++i) meaning += word;
  meaning += std::string(100, 'x');
  const std::string text = help_text({"u", "s", {{"Title", {{"--a B", meaning}, {"--long C", "short"}}}}, {"u a"}});
  std::string line = "  --a B     ";
  for (int i = 0; i < 11; ++i) line += word;
  line.pop_back();
  CHECK(text == "usage: u\n\ns\n\nTitle\n" + line + "\n            meaning\n            " + std::string(100, 'x') +
                    "\n  --long C  short\n\nExamples\n  u a\n");
}

TEST_CASE("messages that are none are named") {
  const TemporaryFolder folder;
  const std::string model = folder.path().string(), list = (folder.path() / "list.json").string();
  std::ofstream(folder.path() / "tokenizer.json") << R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})";
  std::ofstream(folder.path() / "chat_template.jinja") << "{{ messages[0].content }}";
  const std::pair<const char*, const char*> kWrong[] = {
      {"[1, 2]", "messages.0 to be an object"},
      {R"({"messages": [{"content": "a"}, [3]]})", "messages.1 to be"},
      {R"(["a"])", "got string; correct it"}};
  for (const auto& [text, message] : kWrong) {
    CAPTURE(std::string(text));
    std::ofstream(list) << text;
    const Captured captured = run({"tokenize", model, "--messages", list});
    CHECK(captured.status == 2);
    CHECK(captured.err.starts_with("[" + list + "] expected messages."));
    CHECK(captured.err.find(message) != std::string::npos);
  }
}

TEST_CASE("JSON that is nested too deep is an error of one line, wherever it stands") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, std::string_view start, std::string_view end) {
    const std::string path = (folder.path() / name).string();
    std::ofstream(path) << start << std::string(300'000, '[') << std::string(300'000, ']') << end;
    return path;
  };
  std::ofstream(folder.path() / "tokenizer.json") << R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})";
  const std::string model = folder.path().string();
  const std::string list = write("list.json", "", ""), rows = write("rows.jsonl", "", "\n");
  const std::string object = write("object.json", R"({"machine": )", "}");
  for (const auto& args :
       {std::vector{"tokenize", model.c_str(), "--messages", list.c_str()},
        {"tokenize", model.c_str(), "--json-lines", "--lines", rows.c_str()},
        {"plan", "examples/quickstart.yml", "--base_model", model.c_str(), "--machine", object.c_str()}}) {
    const Captured captured = run({args.begin(), args.end()});
    CAPTURE(captured.err);
    CHECK(captured.status == 2);
    CHECK(captured.err.find("nested levels, got more") != std::string::npos);
  }
  write("tokenizer_config.json", R"({"x": )", "}");
  const Captured captured = run({"tokenize", model, "--text", "a"});
  CHECK(captured.status == 2);
  CHECK(captured.err.find("tokenizer_config.json] expected at most 200 nested levels") != std::string::npos);
}

TEST_CASE("--check-config looks at keys and values and writes nothing") {
  const ConfigFile config("wandb_project: x\n");
  const Captured fine = run({"plan", config.path, "--check-config", "--micro-batch-size", "2", "--json"});
  CHECK(fine.status == 0);
  CHECK(nlohmann::json::parse(fine.out)["ignored"] == nlohmann::json{"wandb_project"});
  CHECK(fine.err == "ignored: wandb_project (report_to: wandb writes a run that `wandb sync` sends)\n");
  const Captured wrong = run({"plan", config.path, "--check-config", "--micro_batch_size=0"});
  CHECK(wrong.status == 2);
  CHECK(wrong.out.find("  wandb_project     supported") != std::string::npos);
  CHECK(wrong.out.find("  micro_batch_size  wrong: expected an integer") != std::string::npos);
  CHECK(wrong.err ==
        "[--micro_batch_size] expected an integer of at least 1 and at most 1048576, got '0'; change the value\n");
  const Captured to_come = run({"plan", config.path, "--check-config", "--mora", "true", "--json"});
  CHECK(to_come.status == 2);
  const auto report = nlohmann::json::parse(to_come.out);
  CHECK(report["ok"] == false);
  CHECK(report["problems"].size() == 1);
  CHECK(report["keys"].back()["verdict"] == "not yet");
}

TEST_CASE("text to tokenize that is no UTF-8 is refused with the byte") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "tokenizer.json") << R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})";
  const std::string model = folder.path().string(), text = model + "/text";
  std::ofstream(text) << "a\n\xE9";
  const Captured file = run({"tokenize", model, "--file", text}), argument = run({"tokenize", model, "--text", "\xFF"});
  CHECK(file.status == 2);
  CHECK(file.out.empty());
  CHECK(file.err.find("text] expected UTF-8, got the byte 0xe9 at byte 3; save the text as UTF-8\n") !=
        std::string::npos);
  CHECK(argument.status == 2);
  CHECK(argument.err.find("[--text] expected UTF-8, got the byte 0xff at byte 1") != std::string::npos);
  CHECK(run({"generate", model, "--prompt", "\xFF"}).err.find("[--prompt] expected UTF-8, got the byte 0xff") !=
        std::string::npos);
}

TEST_CASE("a result that standard output does not take is told in one way, whatever its length") {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--version"}, {"train", "--help-config"}, {"completion", "bash"}}) {
    CAPTURE(args[0]);
    const Captured ran = capture([&] {
      const int was = ::dup(STDOUT_FILENO), full = ::open("/dev/full", O_WRONLY);
      ::dup2(full, STDOUT_FILENO);
      const int status = run_command_line(args);
      std::fflush(stdout);
      std::clearerr(stdout);
      ::dup2(was, STDOUT_FILENO);
      ::close(full);
      ::close(was);
      return status;
    });
    CHECK(ran.status == 3);
    CHECK(ran.err == "[standard output] expected to write the result, got an error; make room or read all of it\n");
  }
}

TEST_CASE("an option's path may begin with ~ behind =, where no shell sees it") {
  const TemporaryFolder home;
  const testing::Environment as_home{{{"HOME", home.path().string()}}};
  std::ofstream(home.path() / "tokenizer.json") << R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})";
  std::ofstream(home.path() / "text") << "a";
  CHECK(run({"tokenize", "~", "--file=~/text"}).status == 0);
}

TEST_CASE("a command line of TRL or FastVideo is a config without a file") {
  const auto verdicts = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"plan", "--check-config"});
    return run(args);
  };
  const Captured trl = verdicts({"--model_name_or_path", "m", "--dataset_name", "x.jsonl", "--use-peft", "--packing",
                                 "--lora_target_modules", "q_proj", "v_proj", "--no_remove_unused_columns"});
  CAPTURE(trl.err);
  CHECK(trl.status == 0);
  CHECK(trl.out.find("the command line: all keys and values are fine") != std::string::npos);
  const Captured fastvideo =
      verdicts({"--model_path", "m", "--data-path", "clips", "--learning_rate", "1e-4", "--lora-training",
                "--lora_rank", "8", "--log_validation", "--eval_timesteps", "250", "500"});
  CAPTURE(fastvideo.err);
  CHECK(fastvideo.status == 0);
  CHECK(verdicts({"--base_model", "m"}).err.find("[learning_rate] expected a number") != std::string::npos);
  CHECK(verdicts({"--dataset_name", "x.jsonl"}).err.starts_with("[spillway plan] expected a config file, got nothing"));
}

TEST_CASE("a key without a value is true, with no_ before it false, and a list is several words up to the config") {
  const ConfigFile config("adapter: lora\nlora_r: 4\n");
  const auto error = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"plan", "--check-config"});
    return run(args).err;
  };
  CHECK(error({config.path, "--sample_packing", "--no_bf16"}).empty());
  CHECK(error({"--lora_target_modules", "q_proj", "v_proj", config.path}).empty());
  CHECK(error({"--config", config.path, "--report_to", "none", "--optim_args", "a"}).find("optim_args") !=
        std::string::npos);
  CHECK(error({config.path, "--config", config.path}).find("expected one config file") != std::string::npos);
  CHECK(error({config.path, "--no_seed"}) ==
        "[spillway plan] expected a value after --no_seed, got nothing; write --no_seed VALUE\n");
  CHECK(error({config.path, "--s2_attention"}).find("got 'true'; axolotl dropped it") != std::string::npos);
}

TEST_CASE("what is no folder of a model or of an adapter is said of what was named") {
  const TemporaryFolder place;
  const std::string empty = (place.path() / "empty").string(), file = (place.path() / "model.bin").string();
  std::filesystem::create_directory(empty);
  std::ofstream(file) << "x";
  for (const char* command : {"generate", "chat", "serve"}) {
    std::vector<std::string> args = {command, "./nowhere"};
    if (args[0] == "generate") args.insert(args.end(), {"--prompt", "x"});
    CHECK(
        run(args).err ==
        "[MODEL] expected the folder of a model, got './nowhere', where nothing is; check the path, or write a name of "
        "the hub (org/name)\n");
    args[1] = empty;
    CHECK(run(args).err.find("[MODEL] expected the folder of a model, with config.json, got ") == 0);
    args[1] = file;
    CHECK(run(args).err.find("; name the folder that it lies in") != std::string::npos);
  }
  const std::string model = std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/models/llama2";
  CHECK(run({"merge", model, "--adapter", empty, "--out", empty})
            .err.find("[--adapter] expected the folder of an adapter, with adapter_config.json, got ") == 0);
  std::ofstream(place.path() / "adapter_config.json") << "{}";
  CHECK(run({"chat", place.path().string()}).err.find(" with an adapter; name its base, and this as the adapter") !=
        std::string::npos);
  const std::string config = (place.path() / "c.yml").string();
  std::ofstream(config) << "base_model: ./nowhere\nlearning_rate: 1e-4\ndatasets: [{path: rows.jsonl}]\n";
  CHECK(run({"plan", config}).err.find("[base_model] expected the folder of a model, got './nowhere'") == 0);
}

TEST_CASE("help of a command is shown whichever way round it is asked") {
  CHECK(run({"help", "train"}).out == run({"train", "--help"}).out);
  CHECK(run({"help", "train"}).out.starts_with("usage: spillway train "));
  CHECK(run({"help", "trian"}).err.find("did you mean train?") != std::string::npos);
}

TEST_CASE("what is wrong with the arguments themselves is said in one line") {
  const ConfigFile config;
  CHECK(run({"plan"}).err ==
        "[spillway plan] expected a config file, got nothing; name one, - for standard input, or give --base_model and "
        "other keys, or --model\n");
  CHECK(
      run({"train"}).err ==
      "[spillway train] expected a config file, got nothing; name one, - for standard input, or give --base_model and "
      "other keys\n");
  CHECK(run({"plan", "a", "b"}).err == "[spillway plan] expected one config file, got 'a' and 'b'; remove one\n");
  CHECK(run({"plan", config.path, "--seed"}).err ==
        "[spillway plan] expected a value after --seed, got nothing; write --seed VALUE\n");
  CHECK(run({"plan", config.path, "--check-confg"}).err ==
        "[spillway plan] expected a value after --check-confg, got nothing; did you mean --check-config?\n");
  CHECK(run({"plan", config.path, "--check-config=yes"}).err ==
        "[spillway plan] expected --check-config, got '--check-config=yes'; write it without a value\n");
  CHECK(run({"plan", config.path, "-seed"}).err ==
        "[spillway plan] expected --KEY VALUE, got '-seed'; write two dashes\n");
  CHECK(run({"plan", "/nonexistent.yml", "--check-config"}).status == 2);
  CHECK(
      run({"doctor", "--devise", "cpu"}).err ==
      "[spillway doctor] expected arguments as in `spillway doctor --help`, got '--devise'; did you mean --device?\n");
  CHECK(run({"merge", "m", "x", "--adapter", "a", "--out", "b"}).err ==
        "[spillway merge] expected arguments as in `spillway merge --help`, got 'x'; remove it\n");
  CHECK(run({"generate", "m"}).err ==
        "[spillway generate] expected arguments as in `spillway generate --help`, got: Exactly 1 option from "
        "[--prompt,--messages,--lines] is required; correct them\n");
  CHECK(run({"plan", config.path, "--max_steps", "-1", "--check-config"}).status == 0);
}

TEST_CASE("an option may be spelled with _ or - on every command, and its value stays as it is") {
  const ConfigFile config;
  const std::string refused = run({"generate", "m", "--prompt", "x", "--max-new-tokens", "no"}).err;
  CHECK(refused.find("--max-new-tokens") != std::string::npos);
  for (const std::vector<std::string>& spelled :
       {std::vector<std::string>{"--max_new_tokens", "no"}, {"--max_new-tokens=no"}, {"--max_new_tokens=no"}}) {
    std::vector<std::string> args = {"generate", "m", "--prompt", "x"};
    args.insert(args.end(), spelled.begin(), spelled.end());
    CHECK(run(args).err == refused);
  }
  // The value of --prompt is named like an option.
  CHECK(run({"generate", "m", "--prompt", "--max_new_tokens"}).err == run({"generate", "m", "--prompt", "x"}).err);
  CHECK(run({"merge", "m", "--adapter", "a", "--out", "b", "--max_shard_sise", "1"}).err.find("'--max_shard_sise'") !=
        std::string::npos);
  CHECK(run({"plan", config.path, "--check_config"}).out == run({"plan", config.path, "--check-config"}).out);
  CHECK(run({"train", "--help_config"}).out == run({"train", "--help-config"}).out);
  CHECK(run({"make_example", "--help"}).out == run({"make-example", "--help"}).out);
}

TEST_CASE("--help-config prints the keys, as text and as the page") {
  CHECK(run({"plan", "--help-config"}).out.find("micro_batch_size") != std::string::npos);
  CHECK(run({"plan", "--help-config", "--markdown"}).out.starts_with("# The config\n"));
}

TEST_CASE("doctor says what it measures, and that the machine is busy where it is") {
  const TemporaryFolder folder;
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string old = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const Captured busy = [&] {
    const testing::FixedCpuShare fixed(0.5);
    return run({"doctor", "--disk", folder.path().string()});
  }();
  const testing::FixedCpuShare quiet(1);
  const Captured result = run({"doctor", "--again", "--json", "--disk", folder.path().string()});
  if (before == nullptr) {
    unsetenv("XDG_CACHE_HOME");
  } else {
    setenv("XDG_CACHE_HOME", old.c_str(), 1);
  }
  CHECK(busy.out.find("\nbusy\n  other programs took 50 % of the CPUs, and") != std::string::npos);
  CHECK(busy.err.find("warning: the machine is busy: threads have 50 % of the CPU time that they want; its rates will "
                      "be measured again when it is not\n") != std::string::npos);
  REQUIRE(result.status == 0);
  CHECK(result.err.find("busy") == std::string::npos);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["busy"] == false);
  CHECK(json["tiers"]["device"]["capacity_bytes"] > 0);
  CHECK(json["tiers"]["disk"].contains("write_bytes_per_second"));
  CHECK(json["compute"].size() >= 8);
  std::set<std::string> libraries;
  for (const auto& library : json["libraries"]) libraries.insert(library["name"].get<std::string>());
  for (const char* found : {"cuBLASLt", "cuDNN", "NVRTC", "NCCL"}) libraries.erase(found);  // in a build with CUDA
  bool lacks_mpi = false;
  for (const auto& missing : json["missing"]) lacks_mpi = lacks_mpi || missing["name"] == "MPI";
  const size_t mpi = libraries.erase("Open MPI") + libraries.erase("MPI");
  CHECK(mpi == (lacks_mpi ? 0 : 1));
  CHECK(libraries.size() == 7);
  CHECK(machine_from_json(json["machine"], "doctor").threads == json["cpu"]["threads"]);
  const std::string missing = folder.path() / "missing";
  CHECK(run({"doctor", "--disk", missing}).err ==
        "[--disk] expected a folder, got '" + missing + "'; name one that is there\n");
  CHECK(run({"doctor", "--what"}).status == 2);
}
