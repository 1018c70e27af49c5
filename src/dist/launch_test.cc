#include "dist/launch.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "base/error.h"

using spillway::InputError;
using spillway::Launch;

namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_with(const Variables& variables) {
  return spillway::read_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_with(const Variables& variables) {
  try {
    (void)launch_with(variables);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// As Open MPI 4.1.4 and Slurm 22.05 set them.
const Variables kMpirun = {{"OMPI_COMM_WORLD_SIZE", "6"},
                           {"OMPI_COMM_WORLD_RANK", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"PMIX_NAMESPACE", "123"}};
const Variables kSrun = {{"SLURM_NTASKS", "7"},
                         {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_PROCID", "6"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "3"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                         {"PMIX_NAMESPACE", "slurm.pmix.1.0"}};
const Variables kTorchrun = {{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"LOCAL_RANK", "1"}, {"TORCHELASTIC_RUN_ID", "none"}};

Variables with(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

}  // namespace

TEST_CASE("without a launcher, or with one process, a process is alone") {
  for (const Variables& variables : {Variables{},
                                     {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
                                     {{"WORLD_SIZE", "1"}},
                                     {{"WORLD_SIZE", ""}},
                                     {{"SLURM_STEP_NUM_TASKS", "1"}},
                                     {{"PMI_SIZE", "2(x3)"}}}) {
    const Launch launch = launch_with(variables);
    CHECK_FALSE(launch.is_one_of_several());
    CHECK(launch.rank == 0);
    CHECK(launch.launcher.empty());
  }
}

TEST_CASE("one process in an allocation of several tasks is alone") {
  CHECK_FALSE(launch_with({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).is_one_of_several());
}

TEST_CASE("mpirun's variables say the place") {
  const Launch launch = launch_with(kMpirun);
  CHECK(launch.rank == 4);
  CHECK(launch.size == 6);
  CHECK(launch.local_rank == 1);
  CHECK(launch.local_size == 3);
  CHECK(launch.launcher == "mpirun");
}

TEST_CASE("srun's variables say the place") {
  const Launch last = launch_with(kSrun);
  CHECK(last.rank == 6);
  CHECK(last.size == 7);
  CHECK(last.local_size == 1);
  const Launch third = launch_with(with(kSrun, {{"SLURM_PROCID", "5"}, {"SLURM_NODEID", "2"}, {"SLURM_LOCALID", "1"}}));
  CHECK(third.local_size == 2);
  CHECK(third.local_rank == 1);
  CHECK(third.launcher == "srun");
}

TEST_CASE("mpirun inside an allocation is the launcher, whatever Slurm says of its daemons") {
  CHECK(launch_with(with(kSrun, kMpirun)).size == 6);
}

TEST_CASE("srun without PMIx is an error that says what to type") {
  Variables variables = kSrun;
  variables.erase("PMIX_NAMESPACE");
  CHECK(error_with(variables) == "[srun] expected PMIx to connect 7 ranks, got none; start them with srun --mpi=pmix");
}

TEST_CASE("torch's launchers are an error that says what to type instead") {
  const auto text = [](const char* launcher) {
    return std::string("[WORLD_SIZE] expected one process, got one of 4 that ") + launcher +
           " started; start `spillway train CONFIG.yml --ranks 4` once, or `mpirun -n 4 spillway train CONFIG.yml`";
  };
  CHECK(error_with(kTorchrun) == text("torchrun"));
  CHECK(error_with(with(kTorchrun, {{"ACCELERATE_MIXED_PRECISION", "bf16"}})) == text("accelerate launch"));
  CHECK(error_with({{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"CROSS_SIZE", "1"}}) == text("deepspeed"));
}

TEST_CASE("the rank is known where all else that launchers say is wrong") {
  const auto rank_with = [](const Variables& variables) {
    return spillway::launched_rank([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  CHECK(rank_with(kMpirun) == 4);
  CHECK(rank_with({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}) == 1);  // without PMIx
  CHECK(rank_with({{"OMPI_COMM_WORLD_SIZE", "2"}}) == 0);
  CHECK(rank_with({}) == 0);
}

TEST_CASE("two launchers that disagree are an error") {
  CHECK(error_with(with(kMpirun, kTorchrun)) ==
        "[WORLD_SIZE] expected 6 as mpirun says, got 4; start the ranks with one launcher, or unset it");
  CHECK(launch_with(with(kMpirun, {{"WORLD_SIZE", "6"}, {"RANK", "4"}})).size == 6);
}

TEST_CASE("a place that is none is an error") {
  CHECK(error_with(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "6"}})) ==
        "[OMPI_COMM_WORLD_RANK] expected a rank of 6, got '6'; start all ranks by mpirun itself");
  CHECK(error_with({{"PMI_SIZE", "2"}}) ==
        "[PMI_RANK] expected a rank of 2, got nothing; start all ranks by mpiexec itself");
}
