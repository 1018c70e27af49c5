#include "cli/cmd_chat.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "base/catch_interrupt.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/chat/chat_session.h"
#include "cli/chat/line_reader.h"
#include "cli/chat/word_wrap.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generation_arguments.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr std::string_view kHelp =
    "/system TEXT  tells the model what it is to be; without TEXT that is taken back\n"
    "/reset        forgets the conversation, but for /system\n"
    "/save FILE    writes the conversation as JSON, which `spillway generate --messages` reads\n"
    "/help         shows this\n"
    "/exit         leaves, as Ctrl-D does\n"
    "A line that ends in \\ goes on in the next one. Ctrl-C ends an answer, which is kept as far as it came.";

struct ChatFlags {
  ModelArguments model;
  SamplingArguments choice{{.max_new_tokens = 1024}};
  std::string system;
  int64_t context = 0;
};

// Reads lines, and lets the session answer.
class Chat {
 public:
  Chat(ChatSession& session, CatchInterrupt& interrupts)
      : session_(session), interrupts_(interrupts), lines_(open_line_reader(interrupts)) {}

  // Returns the exit status. A script, which counts answers, learns by it that a line had none.
  int run() {
    int status = kDone;
    for (;;) {
      const std::optional<TypedLine> line = read();
      if (!line) return status;
      if (line->interrupted) return kInterrupted;
      try {
        if (!line->text.starts_with('/')) {
          if (!line->text.empty()) answer(line->text);
        } else if (!obey(line->text)) {
          return status;
        }
      } catch (const InputError& error) {  // of this line; what was said before stays
        log_line(error.what());
        if (::isatty(STDIN_FILENO) == 0) status = kInputWrong;
      }
    }
  }

 private:
  // Reads a line with its continuation lines.
  std::optional<TypedLine> read() {
    std::optional<TypedLine> line = lines_->read("> ");
    while (line && !line->interrupted && line->text.ends_with('\\')) {
      line->text.back() = '\n';
      const std::optional<TypedLine> more = lines_->read(". ");
      if (!more) break;
      line->text += more->text;
      line->interrupted = more->interrupted;
    }
    return line;
  }

  void answer(const std::string& text) {
    const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
    WordWrap wrap(terminal_columns(STDOUT_FILENO));
    const auto show = [&](std::string_view piece) {
      fmt::print("{}", is_terminal ? wrap.push(shown_text(piece)) : std::string(piece));
      std::fflush(stdout);
      if (std::ferror(stdout) != 0)
        throw machine_error("standard output", "expected to write the answer, got an error; read all of it");
    };
    const ChatAnswer answer = session_.ask(text, show, [&] { return !interrupts_.take(); });
    fmt::print("{}\n", wrap.finish());
    std::fflush(stdout);
    if (answer.end == AnswerEnd::kInterrupted) log_line("(the answer was ended)");
    if (answer.end == AnswerEnd::kLength)
      log_info("(the answer was cut after {} tokens; --max-new-tokens says where)", answer.tokens);
    if (answer.end == AnswerEnd::kContext)
      log_line("(the answer was cut where the context was full; /reset begins anew, a larger --context holds more)");
    if (answer.newly_forgotten > 0)
      log_info(
          "(the conversation no longer fits into the context: the {} oldest messages were left out from this "
          "answer on; /reset begins anew, a larger --context holds more)",
          answer.newly_forgotten);
  }

  // Obeys a command line. Returns true if the conversation goes on.
  bool obey(const std::string& line) {
    constexpr std::string_view kNames[] = {"/system", "/reset", "/save", "/help", "/exit"};
    const size_t space = std::min(line.find_first_of(" \n"), line.size());
    const std::string name = line.substr(0, space);
    const std::string rest = space < line.size() ? line.substr(space + 1) : "";
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/system") {
      session_.set_system(rest);
    } else if (name == "/reset") {
      session_.reset();
    } else if (name == "/save") {
      save(rest);
    } else if (name == "/help") {
      log_text(kHelp);
    } else {
      const std::string_view near = nearest_name(name, kNames);
      throw input_error("spillway chat", "expected a command ({}), got {}; {}", joined_names(kNames), quote(name),
                        near.empty() ? "see /help, or put a space before a message that begins with /"
                                     : fmt::format("did you mean {}?", near));
    }
    return true;
  }

  // Overwrites a file only if this chat wrote it.
  void save(const std::string& path) {
    if (path.empty()) throw input_error("/save", "expected a file's name, got none; write for example /save chat.json");
    if (std::filesystem::exists(path) && !saved_.contains(path))
      throw input_error("/save", "expected a name that is free, got {}, which exists; choose another", quote(path));
    AtomicFile file(path);
    file.append(json_text(session_.messages(), 2) + "\n");
    file.commit();
    saved_.insert(path);
    log_info("(saved to {})", path);
  }

  ChatSession& session_;
  CatchInterrupt& interrupts_;
  std::unique_ptr<LineReader> lines_;
  std::set<std::string> saved_;
};

}  // namespace

int cmd_chat(std::span<const std::string> args) {
  ChatFlags options;
  CommandLine line("spillway chat", "Talks with a model, turn by turn.");
  options.model.add_to(line);
  line.option("--system TEXT", options.system, "what the model is told first");
  line.option("--context N", options.context,
              "tokens that the model sees at most, its answer included; 0 takes 4096, or what the model was made for "
              "where that is less",
              0, kMaxNewTokens);
  options.choice.add_to(line);
  line.example("spillway chat ./model");
  line.example("spillway chat ./base --adapter ./model-out --temperature 0.7 --top-p 0.9");
  line.example("printf '%s\\n' 'My name is Ada.' 'What is my name?' | spillway chat ./model");
  if (!line.parse(args)) return kDone;

  const KeptEndOfFile kept;  // what is typed while the model is read counts, too
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model.tokenizer_folder());
  const text::ChatTemplates chats = text::chat_templates_of(tokenizer, options.model.model);
  const int64_t context = options.model.context(options.context);
  LoadedModel loaded(options.model, options.choice, infer::generation_sizes({context}));
  const TextModel& model = loaded.generator().text();
  infer::Decoder decoder = loaded.generator().decoder();
  ChatSession session(tokenizer, chats, decoder,
                      {.sampling = options.choice.sampling,
                       .penalties = loaded.generator().penalties(),
                       .context = context,
                       .vocab_size = model.vocab_size,
                       .model = options.model.model});
  session.set_system(options.system);
  CatchInterrupt interrupts;
  if (::isatty(STDIN_FILENO) != 0)
    log_info("{}, a context of {} tokens. /help shows the commands, Ctrl-D leaves.", options.model.model, context);
  return Chat(session, interrupts).run();
}

}  // namespace spillway
