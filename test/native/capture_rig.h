// The library on the stand-in driver (fake_cuda.cc), as the tests of captured fences use it.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <map>

#include "../../native/include/picket_fence.h"
#include "../../native/ring/ring_reader.h"
#include "check.h"
#include "fake_cuda.h"

namespace check {

using namespace picket;

template <typename Function>
Function* symbol(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* found = reinterpret_cast<Function*>(dlsym(library, name));
  CHECK(found != nullptr);
  return found;
}
inline fake::Driver& driver() { return *symbol<fake::Driver*()>("fake_driver")(); }
inline void begin_capture(void* stream) { symbol<void(void*)>("fake_begin_capture")(stream); }
inline void join_capture(void* from, void* to) { symbol<void(void*, void*)>("fake_join_capture")(from, to); }
inline void end_capture() { symbol<void()>("fake_end_capture")(); }
inline void kernel(void* stream) { symbol<void(void*)>("fake_kernel")(stream); }
inline void replay() { symbol<void()>("fake_replay")(); }

inline void* const kStream = reinterpret_cast<void*>(uintptr_t(0x10000));
inline void* const kOther = reinterpret_cast<void*>(uintptr_t(0x20000));

constexpr double kNoBudget = -1;

inline int open_for(const Directory& directory, picket_t** handle, int form = PICKET_FORM_SIDE,
             double budget = kNoBudget) {
  picket_options options = {};
  options.size = sizeof(options);
  options.device = 0;
  options.directory = directory.path().c_str();
  options.form = form;
  options.overhead_budget = budget;
  return picket_open(&options, handle);
}

struct Rig {
  Directory directory;
  picket_t* handle = nullptr;
  uint32_t attention, mlp;

  explicit Rig(int form = PICKET_FORM_SIDE, double budget = kNoBudget) {
    CHECK_EQ(open_for(directory, &handle, form, budget), PICKET_OK);
    attention = phase("attention");
    mlp = phase("mlp");
  }
  ~Rig() {
    end_capture();
    driver().failing.clear();
    picket_close(handle);
  }
  uint32_t phase(const char* name, int kind = PICKET_KIND_COMPUTE) {
    picket_phase description = {name, kind, -1, nullptr, nullptr, -1};
    uint32_t id = 0;
    CHECK_EQ(picket_phase_register(handle, &description, &id), PICKET_OK);
    return id;
  }
  void begin(uint32_t phase, void* stream = kStream) { CHECK_EQ(picket_begin(handle, phase, stream), PICKET_OK); }
  void end(uint32_t phase, void* stream = kStream) { CHECK_EQ(picket_end(handle, phase, stream), PICKET_OK); }
  std::vector<uint32_t> drain() { return records().second; }
  std::vector<uint64_t> times() { return records().first; }
  // Times and ids.
  std::pair<std::vector<uint64_t>, std::vector<uint32_t>> records() {
    std::string code, error;
    auto segment = Segment::open(picket_path(handle), true, &code, &error);
    RingReader reader(segment.get());
    std::vector<uint64_t> times(4096);
    std::vector<uint32_t> ids(4096);
    size_t count = reader.drain_fences(times.data(), ids.data(), 4096, 1, false).count;
    times.resize(count), ids.resize(count);
    CHECK_EQ(reader.fences_lost(), 0u);
    return {times, ids};
  }
};

inline std::string text(const std::vector<fake::Wait>& waits) {
  std::string out;
  for (auto& wait : waits) out += (out.empty() ? "" : " ") + std::to_string(wait.node) + (wait.early ? "~" : "");
  return out;
}
// "k" a kernel, "f2" a fence of two records, each with what it waits for: "0:k() 1:f1(0) ..."; "0~" by a programmatic
// edge.
inline std::string graph_text() {
  std::string out;
  int index = 0;
  for (auto& node : driver().graph) {
    out += (index ? " " : "") + std::to_string(index) + ":";
    out += node.fence ? "f" + std::to_string(node.args.count) : "k";
    out += "(" + text(node.waits) + ")";
    index++;
  }
  return out;
}
inline uint32_t lane_of(uint32_t id) { return id >> PICKET_FENCE_LANE_SHIFT & (PICKET_MAX_LANES - 1); }

}  // namespace check

