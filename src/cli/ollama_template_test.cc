#include "cli/ollama_template.h"

#include <doctest/doctest.h>

#include <string>

using namespace spillway;

namespace {

std::optional<OllamaTemplate> made_of(std::string_view source, const std::string& bos = "") {
  const auto chat = text::ChatTemplate::compile(std::string(source), "template");
  return ollama_template(chat, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, bos);
}

constexpr std::string_view kLoop =
    "{{ range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}{{ if eq .Role \"user\" }}";

}  // namespace

// The texts around turns are those that the templates show; Ollama's documentation has the language.
TEST_CASE("a chat template that puts texts around turns is written in Ollama's language") {
  const auto chatml = made_of(*text::builtin_chat_template("chatml"));
  REQUIRE(chatml);
  CHECK(chatml->has_system);
  CHECK_FALSE(chatml->system);
  CHECK(chatml->text == "{{ if .System }}<|im_start|>system\n{{ $.System }}<|im_end|>\n{{ end }}" + std::string(kLoop) +
                            "<|im_start|>user\n{{ .Content }}<|im_end|>\n{{ if $last }}<|im_start|>assistant\n{{ end }}"
                            "{{ else if eq .Role \"assistant\" }}<|im_start|>assistant\n{{ .Content }}"
                            "{{ if not $last }}<|im_end|>\n{{ end }}{{ end }}{{ end }}");
}

TEST_CASE("the system message that a template has for conversations without one is told apart") {
  const auto qwen = made_of(*text::builtin_chat_template("qwen_25"));
  REQUIRE(qwen);
  CHECK(qwen->system == "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  CHECK(qwen->text.starts_with("{{ if .System }}<|im_start|>system\n{{ $.System }}<|im_end|>\n{{ end }}{{ range"));
}

TEST_CASE("a system message that stands in a question goes where the template has it") {
  constexpr std::string_view kLast =
      "{{ bos_token }}{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% set rest = messages[1:] "
      "%}"
      "{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if m.role == 'user' %}[INST] "
      "{% if loop.last and s is defined %}{{ s }}\n\n{% endif %}{{ m.content }}[/INST]{% else %} {{ m.content }}"
      "{{ eos_token }}{% endif %}{% endfor %}";
  const auto last = made_of(kLast, "<s>");
  REQUIRE(last);
  CHECK(last->text == std::string(kLoop) +
                          "[INST] {{ if and $last $.System }}{{ $.System }}\n\n{{ end }}{{ .Content }}[/INST]"
                          "{{ if $last }}{{ end }}{{ else if eq .Role \"assistant\" }} {{ .Content }}"
                          "{{ if not $last }}</s>{{ end }}{{ end }}{{ end }}");
  const auto first = made_of(*text::builtin_chat_template("gemma3"));
  REQUIRE(first);
  CHECK(first->text.find("{{ $first := true }}") != std::string::npos);
  CHECK(first->text.find("{{ if and $first $.System }}{{ $.System }}\n\n{{ end }}{{ $first = false }}") !=
        std::string::npos);
}

TEST_CASE("a template without a place for a system message says so") {
  const auto made = made_of(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}<{{ m.role }}>"
      "{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  REQUIRE(made);
  CHECK_FALSE(made->has_system);
  CHECK(made->text.find("System") == std::string::npos);
}

TEST_CASE("braces in a template's text stay text") {
  const auto made = made_of("{% for m in messages %}{{ '{{' }}{{ m.role }}{{ '}}' }}{{ m.content }}\n{% endfor %}");
  REQUIRE(made);
  CHECK(made->text.find("{{ \"{{\" }}user}}{{ .Content }}") != std::string::npos);
}

TEST_CASE("a template that does more than put texts around turns has no translation") {
  CHECK_FALSE(made_of("{% for m in messages %}{{ loop.index }}: {{ m.content }}\n{% endfor %}"));
  CHECK_FALSE(made_of("{{ messages[0]['content'] }}"));
  CHECK_FALSE(made_of("{% for m in messages %}{{ m.content | upper }}{% endfor %}"));
  CHECK_FALSE(made_of("{% for m in messages %}{{ m.content }}\"\"\"{% endfor %}"));
}
