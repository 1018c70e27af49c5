// The chat templates that a config can name, with axolotl's names for them.
#include <algorithm>
#include <array>

#include "data/chat_template.h"

namespace spillway::data {
namespace {

struct Builtin {
  std::string_view name;
  std::string_view source;
};

constexpr std::string_view kChatml = R"({%- for message in messages -%}
{{ '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%})";

constexpr std::string_view kLlama3 = R"({%- for message in messages -%}
{%- if loop.first %}{{ bos_token }}{% endif -%}
{%- set text = message.content if message.content is string
               else message.content | selectattr('text', 'defined') | map(attribute='text') | join -%}
{{ '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\n\n' ~ text | trim ~ '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif -%})";

constexpr std::string_view kAlpaca = R"({{- bos_token -}}
{%- for message in messages -%}
{%- if message.role == 'system' and loop.first -%}
{{ message.content }}
{%- elif message.role == 'user' -%}
{{ '### Instruction:\n' ~ message.content }}
{%- elif message.role == 'assistant' -%}
{{ '### Response:\n' ~ message.content ~ eos_token }}
{%- endif -%}
{%- if not loop.last %}{{ '\n\n' }}{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '\n\n### Response:\n' }}
{%- endif -%})";

constexpr std::array kBuiltins = {
    Builtin{"alpaca", kAlpaca},
    Builtin{"chatml", kChatml},
    Builtin{"llama3", kLlama3},
};

}  // namespace

std::optional<std::string_view> builtin_chat_template(std::string_view name) {
  const auto* found =
      std::find_if(kBuiltins.begin(), kBuiltins.end(), [&](const Builtin& b) { return b.name == name; });
  return found == kBuiltins.end() ? std::nullopt : std::optional(found->source);
}

std::vector<std::string_view> builtin_chat_template_names() {
  std::vector<std::string_view> names;
  for (const Builtin& builtin : kBuiltins) names.push_back(builtin.name);
  return names;
}

}  // namespace spillway::data
