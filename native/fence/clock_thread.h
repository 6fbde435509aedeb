// A thread that ties the clocks together at a fixed period and keeps the heartbeat.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "gpu.h"

namespace picket {

class ClockThread {
 public:
  // Takes the first sample before it returns. `gpu` may be null. Throws std::system_error when no thread can start.
  ClockThread(Segment* segment, Gpu* gpu, uint32_t period_ms);
  ~ClockThread();

 private:
  void run();
  void sample();

  Segment* const segment_;
  Gpu* const gpu_;
  const uint32_t period_ms_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace picket
