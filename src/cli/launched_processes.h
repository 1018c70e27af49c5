// Whether a launcher (mpirun, srun, torchrun) has started this process as one of several.
#pragma once

namespace spillway {

// Throws InputError where the environment says so: each of them would train the whole job, into the same folder.
void check_launched_alone();

}  // namespace spillway
