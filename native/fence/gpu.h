// One GPU as fences need it: kernels loaded, the segment mapped, launching on streams and into captured graphs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../include/picket_fence.h"
#include "../ring/segment.h"
#include "budget.h"
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
  // Loads the kernels and maps the segment; `measured`: also measures what fences cost. False and a message when the
  // driver refuses; what it gave until then stays.
  bool open(bool measured, std::string* error);
  const FenceCosts& costs() const { return costs_; }

  CuResult capture_of(CuStream stream, Capture* capture) const;
  // Stamps on the stream, or in line into its capture.
  CuResult launch(CuStream stream, const uint32_t* ids, unsigned count, bool captured = false) const;
  // Stamps into the stream's active capture. `form`: side or in line.
  // Gives the fence's node.
  CuResult add_to_graph(CuStream stream, const Capture& capture, uint32_t id, int form, CuNode* node);

  // Collectives may be captured.
  void expect_collectives() { collectives_ = true; }
  // The form for a border of this capture where none is asked for. `captured`: a collective just was.
  int best_form(const Capture& capture, bool captured);

  // What follows on the stream waits for let_go(), at most 50 ms, so that the host gets ahead of the GPU.
  CuResult hold(CuStream stream);
  void let_go();

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
  // Where fences write: the ring's cursor, the ring, and its capacity.
  struct Target {
    uint64_t cursor = 0, ring = 0;
    uint32_t mask = 0, log2 = 0;
  };
  struct TimingEvents {
    CuEvent begin = nullptr, end = nullptr;
  };
  // What has_nccl() has seen of a capture.
  struct Inspected {
    uint64_t capture = 0;
    size_t nodes = 0;
    bool nccl = false;
    std::unordered_set<CuNode> fences;  // ours, beside the stream
  };

  bool load(std::string* error);
  FenceArgs arguments(const uint32_t* ids, unsigned count, bool in_line = false) const;
  CuResult merge(Chain* chain, uint32_t id);
  CuResult add_side(const Capture& capture, const Chain& chain, FenceArgs args, CuNode* node);
  CuResult add_in_line(CuStream stream, const Capture& capture, uint32_t id, CuNode* node);
  bool is_kernel(CuNode node) const;
  void keep_apart(CuNode node) const;
  bool is_of_nccl(CuNode node) const;
  CuResult overlap(CuGraph graph, CuNode from, CuNode to) const;
  bool has_nccl(const Capture& capture);
  FenceCosts measure();
  CuResult put_chain(int form);
  double timed(const TimingEvents& events, CuGraphExec graph, int form);
  bool measure(FenceCosts* costs);
  void release_successors(CuGraph graph, Chain* chain) const;

  const Place place_;
  Segment* const segment_;
  // In the pages of cursor_ and handshake_, beside what the clock uses.
  static constexpr uint64_t kScratchCursor = 2048, kScratchRing = 2048, kGate = 1024;
  static constexpr uint32_t kScratchLog2 = 6, kScratchRecords = 1 << kScratchLog2;

  CuFunction fence_ = nullptr, clock_ = nullptr, gate_ = nullptr, load_ = nullptr;
  unsigned processors_ = 1;
  bool overlaps_ = false;                  // graphs may launch fences before their predecessors are through
  mutable std::atomic<bool> overlaps_eager_{false};  // streams may too
  uint64_t cursor_ = 0, handshake_ = 0;
  Target target_;
  uint64_t gates_ = 0;
  uint64_t* handshake_host_ = nullptr;
  CuStream stream_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<CuStream, Chain> chains_;
  Inspected inspected_;
  std::atomic<bool> collectives_{false};
  bool nccl_ = false, no_nccl_ = false;  // seen: NCCL's nodes, and a collective without them
  FenceCosts costs_;
};

}  // namespace picket
