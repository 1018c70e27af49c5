// Loaded into a program before the C library (LD_PRELOAD): holds its reads of 64 KiB and more to BENCH_DISK_RATE bytes a
// second in all, as a disk of that rate would take them one after another. io_uring is refused, so that all reads come
// by here.
//
//   cc -O2 -shared -fPIC bench/limited_disk.c -o limited_disk.so -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static double free_at;  // when the disk has done all that was asked of it so far

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void wait_for(ssize_t bytes) {
  const char* const rate = getenv("BENCH_DISK_RATE");
  if (rate == NULL || bytes < 65536) return;
  pthread_mutex_lock(&mutex);
  const double begin = now();
  if (free_at < begin) free_at = begin;
  free_at += (double)bytes / atof(rate);
  const double left = free_at - begin;
  pthread_mutex_unlock(&mutex);
  const struct timespec pause = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};
  nanosleep(&pause, NULL);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  ssize_t (*const next)(int, void*, size_t, off_t) = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  const ssize_t got = next(fd, to, bytes, offset);
  wait_for(got);
  return got;
}

ssize_t pread64(int fd, void* to, size_t bytes, off_t offset) { return pread(fd, to, bytes, offset); }

int io_uring_queue_init(unsigned entries, void* ring, unsigned flags) {
  (void)entries, (void)ring, (void)flags;
  return -ENOSYS;
}
