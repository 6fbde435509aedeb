// Handles of the stand-in driver (fake_cuda.cc) by which a test steers it and sees what the library did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../native/fence/fence_ptx.h"

namespace fake {

struct Node {
  bool fence;
  std::vector<int> waits;  // numbers of the nodes it depends on
  picket::FenceArgs args;
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
};

}  // namespace fake

extern "C" fake::Driver* fake_driver();
