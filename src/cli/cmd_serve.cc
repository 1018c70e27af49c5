#include "cli/cmd_serve.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/sizes.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generation_arguments.h"
#include "serve/api.h"
#include "serve/http_server.h"
#include "serve/listener.h"
#include "serve/scheduler.h"
#include "text/conversation.h"

namespace spillway {
namespace {

using namespace std::chrono_literals;

// The time that running requests have to end after a signal, and that clients then have to read the rest.
constexpr auto kPatience = 5s, kLastPatience = 5s;

struct ServeOptions {
  ModelArguments model;
  SamplingArguments choice{{.max_new_tokens = 1024, .temperature = 1}};
  std::string host = "127.0.0.1";
  int64_t port = 8080, context = 0, at_once = 8, waiting = 64;
};

void add_options(CommandLine& line, ServeOptions& options) {
  options.model.add_to(line);
  line.option("--host NAME", options.host, "the address to listen to");
  line.option("--port N", options.port, "and its port; 0 takes one that is free", 0, 65535);
  line.option("--context N", options.context,
              "tokens of a request at most, its answer included; 0 takes 4096, or what the model was made for where "
              "that is less",
              0, kMaxNewTokens);
  line.option("--at-once N", options.at_once, "answers that are decoded together", 1, 256);
  line.option("--waiting N", options.waiting, "answers that may wait for that; more are refused with 503", 1, 4096);
}

// The folder's own name, also for "." and "model/".
std::string name_of(const std::string& model) {
  const std::filesystem::path path = std::filesystem::canonical(model);
  return path.has_filename() ? path.filename().string() : path.string();
}

serve::ServedModel served_model(const ServeOptions& options, const text::Tokenizer& tokenizer,
                                const infer::Generator& generator, int64_t context) {
  serve::ServedModel served{.name = name_of(options.model.model),
                            .context = context,
                            .vocab_size = generator.text().vocab_size,
                            .defaults = {options.choice.sampling, generator.penalties()}};
  if (tokenizer.chat_template()) served.chats = text::chat_templates_of(tokenizer, options.model.model);
  return served;
}

// Serves until a signal comes or the machine fails, and lets running answers end. Returns the exit status.
int serve_until_told(serve::HttpServer& server, serve::Scheduler& scheduler) {
  serve::Listener listener(server);
  while (!interrupt_requested() && !scheduler.failure() && !listener.has_ended()) std::this_thread::sleep_for(50ms);
  const bool was_told = interrupt_requested();
  if (was_told) log_line("ending: no more requests are taken");
  scheduler.close(kPatience);
  const auto until = std::chrono::steady_clock::now() + kLastPatience;
  server.shut_down(kLastPatience);
  while (!listener.has_ended() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(20ms);
  if (!listener.has_ended()) ::_exit(was_told ? kInterrupted : kMachineFailed);  // for who neither reads nor leaves
  listener.end();
  if (const std::exception_ptr failure = scheduler.failure()) std::rethrow_exception(failure);
  if (!was_told) throw machine_error("network", "expected to listen, got an error; start the server again");
  return kInterrupted;
}

}  // namespace

int cmd_serve(std::span<const std::string> args) {
  ServeOptions options;
  CommandLine line("spillway serve", "Answers over HTTP, as OpenAI's interface does.");
  add_options(line, options);
  options.choice.add_to(line);
  line.example("spillway serve ./model");
  line.example("spillway serve ./base --adapter ./model-out --port 9000 --at-once 16");
  line.example("curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", ...}]}'");
  if (!line.parse(args)) return kDone;

  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model.tokenizer_folder());
  const int64_t context = options.model.context(options.context);
  LoadedModel loaded(options.model, options.choice,
                     infer::generation_sizes(make_vector<int64_t>(options.at_once, context), options.at_once));
  serve::ModelTokens tokens(loaded.generator().decoder());
  const FinishFirst finish;
  serve::Scheduler scheduler(tokens, options.waiting);
  serve::Api api(served_model(options, tokenizer, loaded.generator(), context), tokenizer, scheduler);
  // Requests that are decoded or wait have a connection each; some connections are left for other questions.
  serve::HttpServer server(api, {.host = options.host,
                                 .port = static_cast<int>(options.port),
                                 .connections = options.at_once + options.waiting + 32});
  log_info("{} is served at http://{}:{}/v1, {} tokens a request. Ctrl-C ends it.", api.name(), options.host,
           server.port(), context);
  return serve_until_told(server, scheduler);
}

}  // namespace spillway
