#include "cli/ollama_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway {
namespace {

// The words of the conversations. No template is likely to hold or to change them.
constexpr std::string_view kSystem = "Rkzsystem", kFirst = "Rkzuserone", kAnswer = "Rkzanswerone",
                           kSecond = "Rkzusertwo", kSecondAnswer = "Rkzanswertwo", kThird = "Rkzuserthree";

enum class SystemPlace : uint8_t { kNowhere, kInFront, kInFirstQuestion, kInLastQuestion };

// The texts that a chat template puts around turns.
struct Turns {
  std::string before_user, after_user, before_assistant, after_assistant;
  std::string prompt;  // for an answer, after the last question
  std::string front;   // before all, where there is no system message
  SystemPlace place = SystemPlace::kNowhere;
  std::string before_system, after_system;  // with it; in a question `before_system` stands before all
};

using Conversation = std::vector<std::string_view>;  // a question, an answer, a question ...

// Renders conversations; nothing where the template refuses one.
class Renderer {
 public:
  Renderer(const text::ChatTemplate& chat, const nlohmann::ordered_json& variables)
      : chat_(chat), variables_(variables) {}

  [[nodiscard]] std::optional<std::string> render(const Conversation& turns, bool has_system,
                                                  bool asks_for_answer = true) const {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    if (has_system) messages.push_back({{"role", "system"}, {"content", kSystem}});
    for (size_t i = 0; i < turns.size(); ++i)
      messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", turns[i]}});
    try {
      return render_chat(chat_,
                         {.messages = messages, .add_generation_prompt = asks_for_answer, .variables = variables_})
          .text;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

 private:
  const text::ChatTemplate& chat_;
  const nlohmann::ordered_json& variables_;
};

// Returns the pieces of `text` around `words`, which must be there once, in their order; else nothing.
std::vector<std::string> split(const std::optional<std::string>& text, const Conversation& words) {
  if (!text) return {};
  std::vector<std::string> pieces;
  size_t at = 0;
  for (const std::string_view word : words) {
    const size_t found = text->find(word, at);
    if (found == std::string::npos) return {};
    pieces.push_back(text->substr(at, found - at));
    at = found + word.size();
  }
  pieces.push_back(text->substr(at));
  return pieces;
}

// Takes `end` off the end of `text`; returns false if it does not stand there.
bool remove_end(std::string& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.resize(text.size() - end.size());
  return true;
}
bool remove_start(std::string& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.erase(0, start.size());
  return true;
}

// Returns what the template would give by its pieces.
std::string compose(const Turns& turns, const Conversation& conversation, bool has_system) {
  std::string text = !has_system ? turns.front : turns.before_system;
  if (has_system && turns.place == SystemPlace::kInFront) text += fmt::format("{}{}", kSystem, turns.after_system);
  for (size_t i = 0; i < conversation.size(); ++i) {
    const bool is_last = i + 1 == conversation.size();
    if (i % 2 == 1) {
      text += fmt::format("{}{}{}", turns.before_assistant, conversation[i], turns.after_assistant);
      continue;
    }
    const bool has_it = (turns.place == SystemPlace::kInFirstQuestion && i == 0) ||
                        (turns.place == SystemPlace::kInLastQuestion && is_last);
    text += turns.before_user;
    if (has_system && has_it) text += fmt::format("{}{}", kSystem, turns.after_system);
    text += fmt::format("{}{}{}", conversation[i], turns.after_user, is_last ? turns.prompt : "");
  }
  return text;
}

bool holds(const Turns& turns, const Renderer& renderer, bool has_system) {
  const Conversation longest = {kFirst, kAnswer, kSecond, kSecondAnswer, kThird};
  for (const size_t length : {1, 3, 5}) {
    const Conversation conversation(longest.begin(), longest.begin() + static_cast<long>(length));
    if (renderer.render(conversation, has_system) != compose(turns, conversation, has_system)) return false;
  }
  return true;
}

std::optional<Turns> take_apart(const Renderer& renderer) {
  const auto asked = split(renderer.render({kFirst}, false), {kFirst});
  const auto three = split(renderer.render({kFirst, kAnswer, kSecond}, false), {kFirst, kAnswer, kSecond});
  const auto question = split(renderer.render({kFirst}, false, false), {kFirst});
  const auto answered = split(renderer.render({kFirst, kAnswer}, false, false), {kFirst, kAnswer});
  if (asked.empty() || three.empty()) return {};
  Turns turns{.front = asked[0]};
  std::string before_assistant = three[1], before_user = three[2], prompt = asked[1];
  if (!question.empty() && prompt.starts_with(question[1]) && before_assistant.starts_with(question[1])) {
    turns.after_user = question[1];
    remove_start(prompt, turns.after_user);
    remove_start(before_assistant, turns.after_user);
  }
  if (!answered.empty() && remove_start(before_user, answered[2])) {
    turns.after_assistant = answered[2];
  } else {  // some end an answer only where another question follows
    std::swap(turns.after_assistant, before_user);
  }
  if (!remove_end(turns.front, before_user)) return {};
  turns.before_user = before_user;
  turns.before_assistant = before_assistant;
  turns.prompt = prompt;
  if (!holds(turns, renderer, false)) return {};
  return turns;
}

void find_system(const Renderer& renderer, Turns& turns) {
  const auto pieces = split(renderer.render({kFirst}, true), {kSystem, kFirst});
  if (pieces.empty()) return;
  Turns found = turns;
  found.before_system = pieces[0];
  found.after_system = pieces[1];
  const auto is = [&](SystemPlace place) {
    found.place = place;
    return holds(found, renderer, true);
  };
  const std::string after = found.after_system;
  if ((remove_end(found.after_system, turns.before_user) && is(SystemPlace::kInFront)) ||
      (found.after_system = after, remove_end(found.before_system, turns.before_user) &&
                                       (is(SystemPlace::kInFirstQuestion) || is(SystemPlace::kInLastQuestion)))) {
    turns = found;
  }
}

// Returns a text as it stands in a template.
std::string literal(std::string_view text) {
  constexpr std::string_view kOpen = "{{", kQuoted = "{{ \"{{\" }}";
  std::string result;
  while (true) {
    const size_t at = text.find(kOpen);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += kQuoted;
    text.remove_prefix(at + kOpen.size());
  }
}

std::string in_go(const Turns& turns) {
  const bool in_front = turns.place == SystemPlace::kInFront;
  const std::string system = "{{ $.System }}" + literal(turns.after_system);
  std::string text;
  if (turns.place == SystemPlace::kNowhere || (!in_front && turns.before_system == turns.front)) {
    text = literal(turns.front);
  } else {
    text = fmt::format("{{{{ if .System }}}}{}{}", literal(turns.before_system), in_front ? system : "");
    if (!turns.front.empty()) text += "{{ else }}" + literal(turns.front);
    text += "{{ end }}";
  }
  std::string in_question;
  if (turns.place == SystemPlace::kInFirstQuestion) {
    text += "{{ $first := true }}";
    in_question = "{{ if and $first $.System }}" + system + "{{ end }}{{ $first = false }}";
  } else if (turns.place == SystemPlace::kInLastQuestion) {
    in_question = "{{ if and $last $.System }}" + system + "{{ end }}";
  }
  text += "{{ range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}{{ if eq .Role \"user\" }}";
  text += fmt::format("{}{}{{{{ .Content }}}}{}", literal(turns.before_user), in_question, literal(turns.after_user));
  text += fmt::format("{{{{ if $last }}}}{}{{{{ end }}}}", literal(turns.prompt));
  text += fmt::format("{{{{ else if eq .Role \"assistant\" }}}}{}{{{{ .Content }}}}", literal(turns.before_assistant));
  text +=
      fmt::format("{{{{ if not $last }}}}{}{{{{ end }}}}{{{{ end }}}}{{{{ end }}}}", literal(turns.after_assistant));
  return text;
}

}  // namespace

std::optional<OllamaTemplate> ollama_template(const text::ChatTemplate& chat, const nlohmann::ordered_json& variables,
                                              const std::string& bos) {
  const Renderer renderer(chat, variables);
  std::optional<Turns> turns = take_apart(renderer);
  if (!turns) return {};
  find_system(renderer, *turns);
  if (!bos.empty()) {
    remove_start(turns->front, bos);
    remove_start(turns->before_system, bos);
  }
  OllamaTemplate result{.has_system = turns->place != SystemPlace::kNowhere};
  // The text in front of a conversation without a system message may be such a message.
  std::string own = turns->front;
  if (turns->place == SystemPlace::kInFront && remove_start(own, turns->before_system) &&
      remove_end(own, turns->after_system) && !own.empty()) {
    result.system = own;
    turns->front = "";
  }
  result.text = in_go(*turns);
  // The format cannot escape its quotes.
  const bool is_quotable = result.text.find("\"\"\"") == std::string::npos && !result.text.ends_with('"');
  return is_quotable ? std::optional(result) : std::nullopt;
}

}  // namespace spillway
