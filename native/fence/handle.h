// What stands behind a picket_t. A handle is never freed: calls in flight during picket_close, and graphs that replay
// fences afterwards, must find its memory.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "clock_thread.h"
#include "gpu.h"
#include "names.h"
#include "overhead.h"

struct picket_handle {
  std::unique_ptr<picket::Segment> segment;
  std::unique_ptr<picket::Gpu> gpu;  // null: host clock
  std::unique_ptr<picket::ClockThread> clock;
  std::atomic<bool> off{false};
  std::atomic<int> form{PICKET_FORM_AUTO};
  std::mutex mutex;  // guards what follows
  picket::Phases phases;
  picket::Lanes lanes;
  picket::Overhead overhead;
  bool failed_before = false;
};

namespace picket {

inline bool is_form(int form) {
  return form == PICKET_FORM_AUTO || form == PICKET_FORM_SIDE || form == PICKET_FORM_IN_LINE;
}

// Keeps `text` for picket_error() of this thread and, with a handle, for the collector. Returns `code`.
int fail(picket_handle* handle, int code, const std::string& text);

}  // namespace picket
