#include "dist/open_peers.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "dist/mpi_module.h"
#include "io/mapping_faults.h"
#include "io/program_module.h"

namespace spillway {
namespace {

struct MpiModule {
  OpenMpi* open = nullptr;
  MpiVersion* version = nullptr;
  EndMpi* end = nullptr;
};

constexpr const char* kBuildWithMpi =
    "run tools/install_dependencies ranks (openmpi-bin, libopenmpi-dev) and build again";

const MpiModule* opened = nullptr;  // null: this process is no rank, or none yet
bool has_joined = false;

// Returns the module's functions; null if there is no module.
const MpiModule* find_mpi_module() {
  static MpiModule module;
  if (module.open != nullptr) return &module;
  const std::optional<ProgramModule> library = ProgramModule::open(module_path("mpi"), kBuildWithMpi);
  if (!library) return nullptr;
  library->find(module.open, "spillway_open_mpi");
  library->find(module.version, "spillway_mpi_version");
  library->find(module.end, "spillway_end_mpi");
  return &module;
}

}  // namespace

void check_has_mpi() {
  std::error_code error;
  if (!std::filesystem::exists(module_path("mpi"), error))
    throw input_error("ranks", "expected a build with MPI for several ranks, got one without; {}", kBuildWithMpi);
}

std::unique_ptr<Peers> open_peers(const Launch& launch, const PeerOptions& options) {
  if (!launch.is_one_of_several()) return nullptr;
  handle_mapping_faults();  // MPI_Init takes SIGBUS where nobody has
  const MpiModule* const module = find_mpi_module();
  if (module == nullptr) check_has_mpi();
  opened = module;
  std::unique_ptr<Peers> peers(module->open(launch, options));
  has_joined = true;
  return peers;
}

bool has_joined_ranks() { return has_joined; }

std::string mpi_version() {
  const MpiModule* const module = find_mpi_module();
  return module == nullptr ? "" : module->version();
}

void end_ranks(int status) {
  if (opened != nullptr) opened->end(status);
}

}  // namespace spillway
