// A system that starts no more threads.
#pragma once

#include <pthread.h>

namespace spillway::testing {

// While it lives, std::thread and std::async throw std::system_error, as at a limit: no stack can be so large.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 48);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }
  NoThreads(NoThreads&&) = delete;

 private:
  pthread_attr_t usual_{};
};

}  // namespace spillway::testing
