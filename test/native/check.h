// A few lines in place of a test framework: TEST bodies run in order, the first failed CHECK ends the program.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "../../native/ring/clock.h"

// ThreadSanitizer refuses threads in a forked child, which some cases need.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace check {

struct Case {
  const char* name;
  void (*run)();
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
struct Register {
  Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

template <typename A, typename B>
void equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  std::ostringstream out;
  out << file << ":" << line << ": " << text << ": " << a << " is not " << b;
  std::fprintf(stderr, "%s\n", out.str().c_str());
  std::_Exit(1);
}

// Runs all cases, or those whose name contains `part`.
inline int run_all(const std::string& part = "") {
  for (auto& test : cases()) {
    if (std::string(test.name).find(part) == std::string::npos) continue;
    test.run();
    std::printf("ok %s\n", test.name);
    std::fflush(stdout);
  }
  return 0;
}

// Waits for a condition, at most ten seconds.
template <typename Condition>
bool eventually(Condition condition) {
  uint64_t deadline = picket::monotonic_ns() + 10000000000u;
  while (!condition())
    if (picket::monotonic_ns() > deadline) return false;
  return true;
}

// A fresh directory, gone at the end.
class Directory {
 public:
  Directory() {
    std::string pattern = "/dev/shm/picket-test-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().string());
    return names;
  }

 private:
  std::string path_;
};

}  // namespace check

#define CHECK(condition) check::equal(bool(condition), true, #condition, __FILE__, __LINE__)
#define CHECK_EQ(a, b) check::equal(a, b, #a, __FILE__, __LINE__)
#define TEST(name)                                            \
  static void test_##name();                                  \
  static check::Register register_##name(#name, test_##name); \
  static void test_##name()
#define MAIN() \
  int main(int count, char** arguments) { return check::run_all(count > 1 ? arguments[1] : ""); }
