// Ties the GPU's clock to the host's: host and a one-thread kernel pass a word back and forth, and the shortest round
// trip bounds the error. A launch-to-completion bracket is ten times as wide.
#include <time.h>

#include "../ring/atomics.h"
#include "../ring/clock.h"
#include "gpu.h"

namespace picket {
namespace {

constexpr uint32_t kRounds = 8;
constexpr uint64_t kKernelPatienceNs = 1000000;  // per round; bounds what a descheduled host thread costs the GPU
constexpr uint64_t kStartPatienceNs = 20000000;  // the GPU may be full of other kernels
constexpr uint64_t kReplyPatienceNs = 500000;
constexpr uint64_t kAbort = ~uint64_t(0);

bool wait_for_start(const uint64_t* reply) {
  uint64_t deadline = monotonic_ns() + kStartPatienceNs;
  while (load_acquire(reply) == 0) {
    if (monotonic_ns() > deadline) return false;
    timespec pause = {0, 20000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

// Asks for one round; true when it beat `sample`.
bool ask(uint64_t* request, const uint64_t* reply, uint64_t round, picket_clock_sample* sample, uint64_t* best) {
  uint64_t before = monotonic_ns();
  store_release(request, round);
  uint64_t gpu, after;
  do {
    gpu = load_acquire(reply);
    after = monotonic_ns();
  } while (gpu == 0 && after - before < kReplyPatienceNs);
  if (gpu == 0 || after - before >= *best) return false;
  *best = after - before;
  sample->gpu_ns = gpu;
  sample->monotonic_ns = before + *best / 2;
  sample->uncertainty_ns = *best / 2 + 1;
  return true;
}

}  // namespace

bool Gpu::sample_clock(picket_clock_sample* sample) {
  const CudaDriver& d = driver();
  ContextScope scope(d, place_.context);
  // The last handshake may still wait behind the engine's kernels.
  if (d.stream_query(stream_) != 0) return false;
  uint64_t* request = handshake_host_;
  uint64_t* replies = handshake_host_ + 16;  // another cache line
  for (uint32_t i = 0; i <= kRounds; i++) store_relaxed(replies + i, uint64_t(0));
  store_release(request, uint64_t(0));
  ClockArgs args = {handshake_, handshake_ + 16 * sizeof(uint64_t), cursor_, kKernelPatienceNs, kRounds, 0};
  void* parameters[] = {&args};
  if (d.launch(clock_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr) != 0) return false;
  uint64_t best = kAbort;
  if (wait_for_start(replies)) {
    sample->fence_claimed = load_acquire(replies) - 1;
    for (uint32_t round = 1; round <= kRounds; round++) ask(request, replies + round, round, sample, &best);
  }
  store_release(request, kAbort);
  return best != kAbort;
}

}  // namespace picket
