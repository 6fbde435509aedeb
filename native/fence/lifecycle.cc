// Opening and closing segments, and what fork and exit do to them.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "../ring/atomics.h"
#include "handle.h"

namespace picket {
namespace {

constexpr uint32_t kFenceCapacity = 1 << 17, kHostCapacity = 1 << 12, kPhaseCapacity = 1 << 12, kClockCapacity = 1 << 8;
constexpr double kOverheadBudget = 0.005;
constexpr uint64_t kSweepAgeNs = 600000000000;  // a collector that is restarted still finds what a dead engine left

thread_local std::string last_error;

// All handles of this process, closed ones too. Never destroyed: the exit handler still needs it.
struct Registry {
  std::mutex mutex;
  std::vector<picket_handle*> handles;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

bool end(picket_handle* handle) {
  if (handle->off.exchange(true)) return false;
  handle->clock.reset();
  store_release(&handle->segment->control()->state, uint32_t(PICKET_STATE_CLOSED));
  handle->segment->drop_descriptor();
  return true;
}

void at_exit() {
  std::lock_guard<std::mutex> guard(registry().mutex);
  for (picket_handle* handle : registry().handles) end(handle);
}

// The child shares the parent's memory: it must not write there, nor keep the parent's lock alive.
void in_child() {
  for (picket_handle* handle : registry().handles)
    if (!handle->off.exchange(true)) handle->segment->drop_descriptor();
  registry().mutex.unlock();
}

void watch_process_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); }, in_child);
    atexit(at_exit);
  });
}

bool disabled() {
  const char* value = getenv("PICKET_DISABLE");
  return value && *value && strcmp(value, "0") != 0;
}

bool capacity_of(uint32_t asked, uint32_t otherwise, uint32_t most, uint32_t* capacity) {
  *capacity = asked ? asked : otherwise;
  return (*capacity & (*capacity - 1)) == 0 && *capacity <= most;
}

std::string problem_of(const picket_options* options, SegmentShape* shape) {
  if (!options || options->size != sizeof(picket_options))
    return "picket_options.size is not that of this library; rebuild the caller with the matching header";
  if (options->attributes && strlen(options->attributes) >= sizeof(picket_control::attributes))
    return "attributes are longer than " + std::to_string(sizeof(picket_control::attributes) - 1) + " bytes";
  if (!is_form(options->form)) return "form is unknown";
  if (!(options->overhead_budget <= 1)) return "overhead_budget is a share, at most 1";
  if (!capacity_of(options->fence_capacity, kFenceCapacity, 1u << 28, &shape->fence_capacity) ||
      !capacity_of(options->host_capacity, kHostCapacity, PICKET_MAX_HOST_CAPACITY, &shape->host_capacity) ||
      !capacity_of(options->phase_capacity, kPhaseCapacity, PICKET_MAX_PHASES, &shape->phase_capacity))
    return "a capacity is not a power of two or beyond its limit (2^28 fences, 2^15 host records, 2^16 phases)";
  shape->clock_capacity = kClockCapacity;
  return "";
}

int open_segment(const picket_options& options, const SegmentShape& shape, picket_handle* handle) {
  std::string error;
  std::string directory = options.directory ? options.directory : default_directory();
  Gpu::Place place;
  if (options.device != PICKET_DEVICE_NONE) place = Gpu::place(options.device, &error);
  if (!error.empty()) return fail(nullptr, PICKET_ERR_CUDA, error);
  sweep_dead_segments(directory, kSweepAgeNs);
  auto describe = [&](picket_control* control) {
    if (place.context) Gpu::describe(place, control);
    if (options.attributes) memcpy(control->attributes, options.attributes, strlen(options.attributes));
  };
  handle->segment = Segment::create(directory, shape, describe, &error);
  if (!handle->segment) return fail(nullptr, PICKET_ERR_SYSTEM, error);
  double budget = options.overhead_budget == 0 ? kOverheadBudget : std::max(options.overhead_budget, 0.0);
  if (place.context) {
    handle->gpu = std::make_unique<Gpu>(place, handle->segment.get());
    if (!handle->gpu->open(budget > 0, &error)) return fail(nullptr, PICKET_ERR_CUDA, error);
  }
  handle->form = options.form;
  handle->overhead.open(handle->segment.get(), handle->gpu.get(), &handle->phases, budget);
  uint32_t period_ms = options.clock_period_ms ? options.clock_period_ms : 1000;
  try {
    handle->clock = std::make_unique<ClockThread>(handle->segment.get(), handle->gpu.get(), period_ms);
  } catch (const std::system_error& failure) {
    return fail(nullptr, PICKET_ERR_SYSTEM, std::string("cannot start the clock thread: ") + failure.what());
  }
  return PICKET_OK;
}

}  // namespace

int fail(picket_handle* handle, int code, const std::string& text) {
  last_error = text;
  if (!handle) return code;
  picket_control* control = handle->segment->control();
  std::lock_guard<std::mutex> guard(handle->mutex);
  if (!handle->failed_before) {
    handle->failed_before = true;
    memcpy(control->first_error, text.data(), std::min(text.size(), sizeof(control->first_error) - 1));
  }
  __atomic_fetch_add(&control->errors, 1, __ATOMIC_RELEASE);
  return code;
}

}  // namespace picket

using namespace picket;

extern "C" int picket_open(const picket_options* options, picket_t** out) {
  if (!out) return fail(nullptr, PICKET_ERR_ARGUMENT, "out is NULL");
  *out = nullptr;
  if (disabled()) return PICKET_OFF;
  try {
    SegmentShape shape;
    std::string problem = problem_of(options, &shape);
    if (!problem.empty()) return fail(nullptr, PICKET_ERR_ARGUMENT, problem);
    watch_process_once();
    auto handle = std::make_unique<picket_handle>();
    int result = open_segment(*options, shape, handle.get());
    if (result != PICKET_OK && handle->segment) {
      handle->segment->unpublish();
      end(handle.get());
    }
    // A GPU that was set up half-way may hold on to the mapping, so that handle stays too.
    std::lock_guard<std::mutex> guard(registry().mutex);
    if (handle->segment) registry().handles.push_back(handle.get());
    if (result == PICKET_OK) *out = handle.get();
    if (handle->segment) handle.release();
    return result;
  } catch (const std::exception& error) {
    return fail(nullptr, PICKET_ERR_SYSTEM, error.what());
  }
}

extern "C" int picket_close(picket_t* handle) {
  if (!handle) return PICKET_OFF;
  std::lock_guard<std::mutex> guard(registry().mutex);
  return end(handle) ? PICKET_OK : PICKET_OFF;
}

extern "C" const char* picket_error(void) { return last_error.c_str(); }
