#include "job/fit/known_name.h"

#include <doctest/doctest.h>

#include "job/fit/catalogue.h"

using namespace spillway;

namespace {

using Names = std::vector<std::string_view>;

Names meant(std::string_view asked) {
  static const std::vector<std::string> names = machine_names();
  const Names known(names.begin(), names.end());
  return machines_meant(asked, known);
}

}  // namespace

TEST_CASE("words of a name are letters and numbers, which keep their dots") {
  CHECK(name_words("Llama-3.1-8B") == std::vector<std::string>{"llama", "3.1", "8", "b"});
  CHECK(name_words("  rtx4090. ") == std::vector<std::string>{"rtx", "4090"});
  CHECK(name_words("1..2").size() == 2);
  CHECK(name_words("-/").empty());
  CHECK(name_words("").empty());
}

TEST_CASE("a machine is found by how people call it, and a desktop's card goes before a laptop's") {
  for (const std::string_view asked : {"4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "rtx-4090", "RTX4090"}) {
    CAPTURE(asked);
    CHECK(meant(asked) == Names{"rtx4090"});
  }
  CHECK(meant("rtx 3060") == Names{"rtx3060-12gb"});
  CHECK(meant("RTX 3060 12GB") == Names{"rtx3060-12gb"});
  CHECK(meant("rtx 4060") == Names{"rtx4060-8gb"});
  CHECK(meant("RTX 4060 Ti") == Names{"rtx4060ti-16gb"});
  CHECK(meant("laptop rtx4060") == Names{"laptop-rtx4060-8gb"});
  CHECK(meant("A100") == Names{"a100-40gb", "a100-80gb"});
  CHECK(meant("gtx1080").empty());
  CHECK(meant("rtx 409").empty());
  CHECK(meant("nvidia").empty());
  CHECK(meant("Ti").empty());
  CHECK(meant("").empty());
}

TEST_CASE("models that were made of a base have its shape, and others have not") {
  CHECK(is_same_shape("Qwen/Qwen3-8B", "qwen3-8b"));
  CHECK(is_same_shape("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"));
  CHECK(is_same_shape("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"));
  CHECK(is_same_shape("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"));
  CHECK(is_same_shape("gemma-2-9b-it", "gemma-2-9b"));
  CHECK_FALSE(is_same_shape("Qwen/Qwen2.5-Coder-7B", "qwen2.5-7b"));
  CHECK_FALSE(is_same_shape("llama-3.1-8b", "llama-3-8b"));
  CHECK_FALSE(is_same_shape("instruct", "chat"));
  CHECK_FALSE(is_same_shape("", ""));
}
