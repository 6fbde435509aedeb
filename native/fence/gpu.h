// One GPU as fences need it: kernels loaded, the segment mapped, launching on streams and into captured graphs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../include/picket_fence.h"
#include "../ring/segment.h"
#include "cuda_driver.h"
#include "fence_ptx.h"

namespace picket {

// Makes a context current for a scope and shields it from other threads' captures.
class ContextScope {
 public:
  ContextScope(const CudaDriver& driver, CuContext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;

 private:
  const CudaDriver& driver_;
  bool pushed_ = false;
};

// What a stream is doing.
struct Capture {
  int status = kCuCaptureNone;
  uint64_t id = 0;
  CuGraph graph = nullptr;
  const CuNode* dependencies = nullptr;  // valid until the stream's next call
  size_t count = 0;
};

class Gpu {
 public:
  // The context to use: of CUDA ordinal `device`, or the calling thread's (PICKET_DEVICE_CURRENT). Null context and
  // empty error: there is none.
  struct Place {
    const CudaDriver* driver = nullptr;
    CuContext context = nullptr;
    CuDevice device = -1;
  };
  static Place place(int device, std::string* error);
  static void describe(const Place& place, picket_control* control);

  Gpu(const Place& place, Segment* segment) : place_(place), segment_(segment) {}
  // Loads the kernels and maps the segment. False and a message when the driver refuses; what it gave until then stays.
  bool open(std::string* error);

  CuResult capture_of(CuStream stream, Capture* capture) const;
  // Stamps on the stream, which is not being captured, or in line into its capture.
  CuResult launch(CuStream stream, const uint32_t* ids, unsigned count) const;
  // Stamps into the stream's active capture.
  CuResult add_to_graph(CuStream stream, const Capture& capture, uint32_t id, int form);

  // One clock sample: sets gpu_ns, monotonic_ns, uncertainty_ns and fence_claimed. False when the GPU did not answer.
  // Called by one thread.
  bool sample_clock(picket_clock_sample* sample);

  const CudaDriver& driver() const { return *place_.driver; }

 private:
  // The last fence of a captured stream.
  struct Chain {
    uint64_t capture = 0;
    CuNode node = nullptr;
    bool in_line = false;
    std::vector<CuNode> dependencies;
    FenceArgs args;
  };

  bool load(std::string* error);
  FenceArgs arguments(const uint32_t* ids, unsigned count) const;
  CuResult merge(Chain* chain, uint32_t id);
  CuResult add_side(const Capture& capture, const Chain& chain, FenceArgs args, CuNode* node);
  CuResult add_in_line(CuStream stream, uint32_t id, CuNode* node);

  const Place place_;
  Segment* const segment_;
  CuFunction fence_ = nullptr, clock_ = nullptr;
  uint64_t cursor_ = 0, ring_ = 0, handshake_ = 0;
  uint64_t* handshake_host_ = nullptr;
  CuStream stream_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<CuStream, Chain> chains_;
};

}  // namespace picket
