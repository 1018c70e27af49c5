#include "cli/commands.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "base/this_host.h"
#include "cli/cmd_chat.h"
#include "cli/cmd_completion.h"
#include "cli/cmd_doctor.h"
#include "cli/cmd_eval.h"
#include "cli/cmd_export.h"
#include "cli/cmd_fetch.h"
#include "cli/cmd_generate.h"
#include "cli/cmd_import.h"
#include "cli/cmd_make_example.h"
#include "cli/cmd_merge.h"
#include "cli/cmd_plan.h"
#include "cli/cmd_preprocess.h"
#include "cli/cmd_push.h"
#include "cli/cmd_quantize.h"
#include "cli/cmd_rewards.h"
#include "cli/cmd_sample.h"
#include "cli/cmd_serve.h"
#include "cli/cmd_tokenize.h"
#include "cli/cmd_train.h"
#include "cli/cmd_watch.h"
#include "cli/help_page.h"
#include "cli/option_names.h"
#include "cli/ranks/start_ranks.h"
#include "dist/launch.h"
#include "dist/open_peers.h"
#include "dist/rank_errors.h"
#include "io/file_error.h"

namespace spillway {
namespace {

constexpr Command kCommands[] = {
    {"train", "train what a config says", cmd_train},
    {"watch", "the report of a run, in a browser, while it goes on", cmd_watch},
    {"plan", "where every byte will live and what a step costs", cmd_plan},
    {"preprocess", "write the rows that training would see", cmd_preprocess},
    {"generate", "continue a text, or answer a conversation", cmd_generate},
    {"chat", "talk with a model", cmd_chat},
    {"serve", "answer over HTTP, as OpenAI's interface does", cmd_serve},
    {"eval", "how well a model predicts data, or answers questions", cmd_eval},
    {"rewards", "what a config's reward functions say of completions", cmd_rewards},
    {"merge", "fold an adapter into its base", cmd_merge},
    {"make-example", "a model and data to try things with", cmd_make_example},
    {"sample", "a clip of a video transformer", cmd_sample},
    {"quantize", "a model's linear layers in 4 or 8 bits", cmd_quantize},
    {"export", "a GGUF file for llama.cpp and Ollama", cmd_export},
    {"import", "a Hugging Face folder from a GGUF file", cmd_import},
    {"fetch", "a model or a data set of the Hugging Face hub", cmd_fetch},
    {"push", "a model, an adapter or a GGUF file to the Hugging Face hub", cmd_push},
    {"tokenize", "the tokens of a text, as a model's tokenizer makes them", cmd_tokenize},
    {"doctor", "what this machine has and how fast each part is", cmd_doctor},
    {"completion", "a script with which a shell completes these commands", cmd_completion},
};

constexpr std::string_view kVersion = SPILLWAY_VERSION;

std::string help() {
  HelpPage page{.usage = "spillway COMMAND ...",
                .summary = "Trains language models within the memory that you give it.",
                .sections = {{}},
                .examples = {"spillway plan examples/quickstart.yml", "spillway train examples/quickstart.yml"}};
  for (const Command& command : commands())
    page.sections[0].rows.push_back({std::string(command.name), std::string(command.summary)});
  return help_text(page) +
         fmt::format("\n`spillway COMMAND --help` tells more; `spillway --version` prints {}.\n", kVersion);
}

int dispatch(std::span<const std::string> args) {
  if (args.size() > 1 && args[0] == "help") return dispatch(std::vector<std::string>{args[1], "--help"});
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    fmt::print("{}", help());
    return args.empty() ? kInputWrong : kDone;
  }
  if (args[0] == "--version") {
    fmt::print("spillway {}\n", kVersion);
    return kDone;
  }
  std::vector<std::string_view> names;
  for (const Command& command : commands()) {
    if (is_same_option(command.name, args[0])) {
      if (command.run != cmd_train && command.run != cmd_doctor) check_launched_alone(command.name);
      return command.run(args.subspan(1));
    }
    names.push_back(command.name);
  }
  const std::string_view near = nearest_name(args[0], names);
  throw input_error("spillway", "expected a command ({}), got {}; {}", joined_names(names), quote(args[0]),
                    near.empty() ? "see spillway --help" : fmt::format("did you mean {}?", near));
}

// Throws if the result could not be written to standard output.
void flush_results() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw machine_error("standard output", "expected to write the result, got an error; make room or read all of it");
  }
}

// Runs the command and renames errors of libraries, which say neither whose fault they are nor what to do.
int dispatch_with_named_errors(std::span<const std::string> args) {
  try {
    return dispatch(args);
  } catch (const std::filesystem::filesystem_error& error) {
    throw_file_error(error);
  } catch (const std::system_error& error) {
    flush_results();  // fmt's, where it could not print
    // Only std::thread throws this error.
    if (error.code() == std::errc::resource_unavailable_try_again)
      throw machine_error("threads", "expected to start one more, got \"{}\"; raise the limit on threads (ulimit -u)",
                          error.code().message());
    throw;
  }
}

// Says an error; on a rank that could not join the others, with its name. What has kept it from that is most
// often wrong on all ranks: rank 0 says it, and the launcher ends the others (Open MPI's a second later) before they
// do.
void say_error(std::string_view message) {
  constexpr auto kForLauncher = std::chrono::seconds(3);
  const int rank = has_joined_ranks() ? 0 : launched_rank();
  if (rank > 0) std::this_thread::sleep_for(kForLauncher);
  log_line(message_of_rank(rank, host_name(), message));
}

// As one of several ranks it ends the job, unless all ranks have come to their end together.
int fail(std::string_view message, int status) {
  say_error(message);
  end_ranks(status);
  return status;
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

HelpPage help_of(const Command& command) {
  const HelpReader reader;
  const std::vector<std::string> help = {"--help"};
  static_cast<void>(command.run(help));
  SPILLWAY_CHECK(reader.page(), "{} --help shows no page", command.name);
  return *reader.page();
}

int run_command_line(std::span<const std::string> args) {
  try {
    const int status = dispatch_with_named_errors(args);
    flush_results();
    return status;
  } catch (const Interrupted&) {
    return fail("interrupted", kInterrupted);
  } catch (const InputError& error) {
    return fail(error.what(), kInputWrong);
  } catch (const MachineError& error) {
    return fail(error.what(), kMachineFailed);
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, kMachineFailed);
  } catch (const std::system_error& error) {
    return fail(fmt::format("[system] expected an operation to succeed, got {}; see to it and try again", error.what()),
                kMachineFailed);
  } catch (const std::exception& error) {
    return fail(fmt::format("bug: {}", error.what()), kMachineFailed);
  }
}

}  // namespace spillway
