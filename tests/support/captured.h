// Captures what code writes to standard output and standard error.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace spillway {

struct Captured {
  int status = 0;
  std::string out, err;
};

// Runs body() with both streams going to files, and gives back its result and what it wrote.
template <typename Body>
Captured capture(const Body& body) {
  const auto read_back = [](std::FILE* file) {
    std::string text;
    std::rewind(file);
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::fclose(file);
    return text;
  };
  std::fflush(stdout);
  std::fflush(stderr);
  std::FILE *out = std::tmpfile(), *err = std::tmpfile();
  const int old_out = dup(STDOUT_FILENO), old_err = dup(STDERR_FILENO);
  dup2(fileno(out), STDOUT_FILENO);
  dup2(fileno(err), STDERR_FILENO);
  Captured result;
  result.status = body();
  std::fflush(stdout);
  std::fflush(stderr);
  dup2(old_out, STDOUT_FILENO);
  dup2(old_err, STDERR_FILENO);
  close(old_out);
  close(old_err);
  result.out = read_back(out);
  result.err = read_back(err);
  return result;
}

}  // namespace spillway
