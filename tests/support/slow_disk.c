/* Preloaded: each fsync and fdatasync takes SLOW_SYNC_MS milliseconds longer, as on a slow disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  const char *ms = getenv("SLOW_SYNC_MS");
  struct timespec pause = {0, (ms ? atol(ms) : 0) * 1000000L};
  nanosleep(&pause, NULL);
  return real(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
