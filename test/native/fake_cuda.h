// Handles of the stand-in driver (fake_cuda.cc) by which a test steers it and sees what the library did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../native/fence/fence_ptx.h"

namespace fake {

// In nanoseconds of the stand-in's own clock, which is that of its fences and events.
constexpr uint64_t kKernel = 4000, kSlowKernel = 4160, kSideFence = 100, kInLineFence = 700, kLaunchedFence = 1000;

struct Wait {
  int node;
  bool early;  // a programmatic edge
};

struct Node {
  bool fence;
  std::vector<Wait> waits;
  picket::FenceArgs args;
  bool side = false;
  int type = 0;    // as the driver numbers them: 0 a kernel, 7 an event record
  int domain = 0;  // memory domain of a kernel
};

struct Stream {
  int capture = 0;        // 0 none, 1 active, 2 invalidated
  std::vector<int> tail;  // what its next kernel would wait for
};

struct Driver {
  std::vector<Node> graph;  // of the capture under way
  uint64_t capture_id = 1;
  std::string failing;  // name of the call that fails
  int launches = 0;     // outside captures
  int early = 0;        // of these, launched before their predecessors are through
  int gates = 0;        // gates put on streams
  int capability = 8;   // compute capability of the GPU
  uint64_t clock = 1000000000;
  uint64_t side_fence_ns = kSideFence;
  int slower_after = -1;  // launches of graphs after which their kernels take 4 % longer
};

}  // namespace fake

extern "C" fake::Driver* fake_driver();
