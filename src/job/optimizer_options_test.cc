#include "job/optimizer_options.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "base/error.h"

using namespace spillway;
using namespace spillway::train;

namespace {

ops::OptimizerOptions options_for(std::string_view optimizer, const config::OptimizerSettings& settings) {
  return optimizer_options(*ops::find_optimizer(optimizer), settings);
}

config::OptimizerSettings with_args(std::vector<config::OptimArg> args) { return {.args = {std::move(args)}}; }

}  // namespace

TEST_CASE("an optimizer gets its defaults, then the keys that its library reads, then optim_args") {
  const ops::OptimizerOptions plain = options_for("adamw", {});
  CHECK(plain.real("beta2") == 0.999);
  CHECK(plain.real("eps") == 1e-8);
  const config::OptimizerSettings keys{{.weight_decay = 0.1, .adam_beta2 = 0.95, .adam_epsilon = 1e-6}};
  CHECK(options_for("adamw", keys).real("beta2") == 0.95);
  CHECK(options_for("adamw", keys).real("weight_decay") == 0.1);
  // torch's RMSprop gets no adam_epsilon from transformers.
  CHECK(options_for("rmsprop", keys).real("eps") == 1e-8);
  const config::OptimizerSettings of_came{{.adam_beta3 = 0.99, .adam_epsilon2 = 1e-10}};
  CHECK(options_for("came", of_came).real("beta3") == 0.99);
  CHECK(options_for("came", of_came).real("eps2") == 1e-10);
  CHECK(options_for("came", of_came).real("eps") == 1e-30);
  CHECK(options_for("ademamix", of_came).real("beta3") == 0.9999);
  config::OptimizerSettings both = keys;
  both.args = {{{"beta2", 0.9, "c.yml:3: optim_args.beta2"}}};
  CHECK(options_for("ademamix", both).real("beta2") == 0.9);
}

TEST_CASE("keys that an optimizer does not read are known by name") {
  const config::OptimizerSettings settings{{.weight_decay = 0.1, .adam_beta1 = 0.8, .adam_epsilon = 1e-6}};
  const auto unread = [&](std::string_view optimizer) {
    return unread_keys(*ops::find_optimizer(optimizer), settings);
  };
  CHECK(unread("adamw").empty());
  CHECK(unread("lion") == std::vector<std::string_view>{"adam_epsilon"});
  CHECK(unread("sgd") == std::vector<std::string_view>{"adam_beta1", "adam_epsilon"});
  CHECK(unread_keys(*ops::find_optimizer("sgd"), {}).empty());
}

TEST_CASE("Muon has axolotl's defaults, since only its configs name it") {
  const auto muon = options_for("muon", {});
  CHECK(muon.real("match_rms_adamw") == 1);
  CHECK(muon.real("beta1") == 0.95);
  CHECK(muon.real("beta2") == 0.95);
}

TEST_CASE("optimi_adamw has the defaults of torch-optimi, and what the config says") {
  const auto plain = options_for("optimi_adamw", {});
  CHECK(plain.real("beta1") == 0.9);
  CHECK(plain.real("beta2") == 0.99);
  CHECK(plain.real("eps") == 1e-6);
  CHECK(options_for("optimi_adamw", {{.adam_beta2 = 0.95}}).real("beta2") == 0.95);
  CHECK(ops::find_optimizer("optimi_adamw")->spares_embeddings);
}

TEST_CASE("an option that the optimizer does not have, or cannot take, is refused with the nearest and the bounds") {
  CHECK_THROWS_WITH_AS((void)options_for("sgd", with_args({{"momentun", 0.9, "c.yml:3: optim_args.momentun"}})),
                       "[c.yml:3: optim_args.momentun] expected an option of this optimizer (momentum, dampening, "
                       "nesterov or weight_decay), got 'momentun'; did you mean momentum?",
                       InputError);
  CHECK_THROWS_WITH_AS(
      (void)options_for("sgd", with_args({{"momentum", 1.5, "c.yml:3: optim_args.momentum"}})),
      "[c.yml:3: optim_args.momentum] expected momentum from 0 to 0.99999999, got 1.5; change the value", InputError);
  CHECK_THROWS_WITH_AS((void)options_for("sgd", with_args({{"nesterov", 1, "c.yml:3: optim_args.nesterov"}})),
                       "[c.yml:3: optim_args.nesterov] expected momentum above 0 and no dampening beside nesterov, got "
                       "momentum=0, dampening=0, nesterov=1, weight_decay=0; change the options",
                       InputError);
  CHECK_THROWS_WITH_AS((void)options_for("muon", with_args({{"ns_steps", 2.5, "c.yml:3: optim_args.ns_steps"}})),
                       doctest::Contains("expected a whole number of ns_steps"), InputError);
}
