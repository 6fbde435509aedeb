#include "clock_thread.h"

#include <signal.h>

#include <chrono>

#include "../ring/atomics.h"
#include "../ring/clock.h"

namespace picket {
namespace {

// The realtime that belongs to a monotonic time of a moment ago.
uint64_t realtime_at(uint64_t monotonic) {
  uint64_t before = monotonic_ns();
  uint64_t real = realtime_ns();
  uint64_t after = monotonic_ns();
  return real + monotonic - (before + (after - before) / 2);
}

void publish(Segment* segment, picket_clock_sample sample) {
  picket_control* control = segment->control();
  uint64_t index = control->clock_written;
  picket_clock_sample* slot = segment->clocks() + (index & (segment->constant().clock_capacity - 1));
  store_relaxed(&slot->commit, uint64_t(0));
  __atomic_thread_fence(__ATOMIC_RELEASE);
  publish_words(&slot->gpu_ns, &sample.gpu_ns, sizeof(sample) - sizeof(sample.commit));
  store_release(&slot->commit, index + 1);
  store_release(&control->clock_written, index + 1);
}

}  // namespace

ClockThread::ClockThread(Segment* segment, Gpu* gpu, uint32_t period_ms)
    : segment_(segment), gpu_(gpu), period_ms_(period_ms) {
  sample();
  // The engine's signals are the engine's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread(&ClockThread::run, this);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ClockThread::~ClockThread() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ClockThread::run() {
  if (gpu_) {
    int mode = kCuCaptureModeRelaxed;  // its launches are no part of any capture under way
    gpu_->driver().exchange_capture_mode(&mode);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(period_ms_), [this] { return stop_; })) {
    lock.unlock();
    sample();
    lock.lock();
  }
}

void ClockThread::sample() {
  picket_control* control = segment_->control();
  picket_clock_sample sample = {};
  if (gpu_) {
    if (gpu_->sample_clock(&sample)) store_release(&control->fence_claimed, sample.fence_claimed);
  } else {
    sample.monotonic_ns = monotonic_ns();
    sample.fence_claimed = load_acquire(&control->fence_claimed);
  }
  store_relaxed(&control->heartbeat_ns, monotonic_ns());
  if (sample.monotonic_ns == 0) return;
  sample.realtime_ns = realtime_at(sample.monotonic_ns);
  publish(segment_, sample);
}

}  // namespace picket
