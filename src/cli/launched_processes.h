// Detects launchers (mpirun, srun, torchrun) that start several processes.
#pragma once

namespace spillway {

// Throws InputError if the environment says that this process is one of several: each of them would train the whole
// job, into the same folder.
void check_launched_alone();

}  // namespace spillway
