// The CPUs of a process that shares its host with others of the same job.
#pragma once

namespace spillway {

// From now on available_cpus() and cpu_quota() (base/parallel.h) are those of one of so many processes of this host: of
// CPUs, all that a launcher has bound this process to, or its share of the host's where it is bound to none. To be
// called before anything starts threads. REQUIRES: processes >= 1.
void share_cpus(int processes);

}  // namespace spillway
