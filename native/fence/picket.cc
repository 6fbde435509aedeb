// Stamping: the calls an engine makes while it runs.
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../ring/atomics.h"
#include "../ring/clock.h"
#include "../ring/ring_writer.h"
#include "handle.h"

namespace picket {
namespace {

bool is_off(const picket_handle* handle) { return !handle || handle->off.load(std::memory_order_relaxed); }

uint32_t thread_id() {
  static thread_local uint32_t id = uint32_t(syscall(SYS_gettid));
  return id;
}

bool known(picket_handle* handle, uint32_t phase) {
  return phase < load_acquire(&handle->segment->control()->phase_count);
}

int unknown_phase(picket_handle* handle, uint32_t phase) {
  return fail(handle, PICKET_ERR_ARGUMENT, "phase " + std::to_string(phase) + " was never registered");
}

// Without a GPU a null stream stands for the calling thread; thread ids are smaller than any address.
int lane_of(picket_handle* handle, void* stream, bool captured, uint32_t* lane) {
  uint64_t key = uint64_t(reinterpret_cast<uintptr_t>(stream));
  if (!handle->gpu && key == 0) key = thread_id();
  {
    std::lock_guard<std::mutex> guard(handle->mutex);
    if (handle->lanes.of(key, captured, lane)) return PICKET_OK;
  }
  return fail(handle, PICKET_ERR_FULL, "more than " + std::to_string(PICKET_MAX_LANES) + " streams");
}

uint64_t put_host(picket_handle* handle, picket_host_record* record) {
  Segment& segment = *handle->segment;
  record->time_ns = monotonic_ns();
  record->thread = thread_id();
  return write_host(segment.control(), segment.hosts(), segment.constant().host_capacity, *record);
}

// Stamps `ids`, still without their lane, on a stream that is not being captured.
int stamp_now(picket_handle* handle, void* stream, uint32_t* ids, unsigned count) {
  uint32_t lane;
  int result = lane_of(handle, stream, false, &lane);
  if (result != PICKET_OK) return result;
  for (unsigned i = 0; i < count; i++) ids[i] |= lane << PICKET_FENCE_LANE_SHIFT;
  Segment& segment = *handle->segment;
  if (!handle->gpu) {
    write_fences(segment.control(), segment.fences(), segment.constant().fence_capacity, monotonic_ns(), ids, count);
    return PICKET_OK;
  }
  CuResult launched = handle->gpu->launch(stream, ids, count);
  if (launched != 0)
    return fail(handle, PICKET_ERR_CUDA, handle->gpu->driver().describe("launching a fence", launched));
  add_relaxed(&segment.control()->launches, uint64_t(1));
  return PICKET_OK;
}

// What the stream is doing; without a GPU never capturing.
int look_at(picket_handle* handle, void* stream, Capture* capture) {
  if (!handle->gpu) return PICKET_OK;
  CuResult result = handle->gpu->capture_of(stream, capture);
  if (result != 0)
    return fail(handle, PICKET_ERR_CUDA, handle->gpu->driver().describe("asking for a stream's capture", result));
  if (capture->status != kCuCaptureNone && capture->status != kCuCaptureActive) return PICKET_OFF;
  return PICKET_OK;
}

// Looks at the stream and gives the border's place.
int place_of(picket_handle* handle, uint32_t phase, void* stream, uint32_t type, Capture* capture,
             BorderPlace* place) {
  int result = look_at(handle, stream, capture);
  if (result != PICKET_OK) return result;
  bool captured = capture->status != kCuCaptureNone;
  *place = {stream, 0, captured ? capture->id : 0, handle->form.load(std::memory_order_relaxed), false, {}};
  if (captured) place->waits.assign(capture->dependencies, capture->dependencies + capture->count);
  if (captured && place->form == PICKET_FORM_AUTO) {
    bool collective = type == PICKET_FENCE_END && handle->segment->phases()[phase].kind == PICKET_KIND_COMM;
    place->form = handle->gpu->best_form(*capture, collective);
    place->free = place->form == PICKET_FORM_SIDE;
  }
  return lane_of(handle, stream, captured, &place->lane);
}

int border(picket_handle* handle, uint32_t phase, void* stream, uint32_t type) {
  if (!known(handle, phase)) return unknown_phase(handle, phase);
  Capture capture;
  BorderPlace place;
  int result = place_of(handle, phase, stream, type, &capture, &place);
  if (result != PICKET_OK) return result;
  uint32_t written;
  {
    std::lock_guard<std::mutex> guard(handle->mutex);
    Overhead& overhead = handle->overhead;
    written = type == PICKET_FENCE_BEGIN ? overhead.begin(&place, phase, false) : overhead.end(&place, phase);
  }
  if (written == Overhead::kLeftOut) return PICKET_OK;
  uint32_t id = fence_id(type, 0, written);
  if (place.capture == 0) return stamp_now(handle, stream, &id, 1);
  // The dependencies that were looked up stay valid: nothing was captured since.
  CuNode node = nullptr;
  id |= place.lane << PICKET_FENCE_LANE_SHIFT;
  CuResult added = handle->gpu->add_to_graph(stream, capture, id, place.form, &node);
  if (added != 0)
    return fail(handle, PICKET_ERR_CUDA, handle->gpu->driver().describe("adding a fence to a graph", added));
  std::lock_guard<std::mutex> guard(handle->mutex);
  if (place.form == PICKET_FORM_IN_LINE) handle->overhead.stamped_in_line(place, node);
  return PICKET_OK;
}

uint32_t link_to(uint64_t host_record) { return fence_id(PICKET_FENCE_LINK, 0, uint32_t(host_record & 0xffff)); }

int begin_call(picket_handle* handle, uint32_t phase, void* stream, const picket_call_payload* call) {
  if (!call) return fail(handle, PICKET_ERR_ARGUMENT, "call is NULL");
  if (!known(handle, phase)) return unknown_phase(handle, phase);
  Capture capture;
  BorderPlace place;
  int result = place_of(handle, phase, stream, PICKET_FENCE_BEGIN, &capture, &place);
  if (result != PICKET_OK) return result;
  if (place.capture != 0)
    return fail(handle, PICKET_ERR_ARGUMENT, "a captured call has no facts of its own; register a phase with them");
  picket_host_record record = {};
  record.type = PICKET_HOST_CALL;
  record.phase = uint16_t(phase);
  record.payload.call = *call;
  {
    std::lock_guard<std::mutex> guard(handle->mutex);
    if (handle->overhead.begin(&place, phase, true) == Overhead::kLeftOut) return PICKET_OK;
  }
  uint32_t ids[] = {link_to(put_host(handle, &record)), fence_id(PICKET_FENCE_BEGIN, 0, phase)};
  return stamp_now(handle, stream, ids, 2);
}

int step(picket_handle* handle, const picket_step_payload* step, const char* const* requests, void* stream) {
  if (!step || step->requests < 0 || step->requests > 0xffff || (step->requests > 0 && !requests))
    return fail(handle, PICKET_ERR_ARGUMENT, "step is NULL, or its requests are not 0 to 65535 given ids");
  picket_host_record record = {};
  record.type = PICKET_HOST_STEP;
  record.payload.step = *step;
  uint64_t number = put_host(handle, &record);
  for (int i = 0; i < step->requests; i++) {
    size_t length = strlen(requests[i]);
    picket_host_record request = {};
    request.type = PICKET_HOST_REQUEST;
    request.payload.request.step_record = number;
    request.payload.request.index = uint16_t(i);
    request.payload.request.length = uint16_t(length < 0xffff ? length : 0xffff);
    constexpr size_t kRoom = sizeof(request.payload.request.text);
    memcpy(request.payload.request.text, requests[i], length < kRoom ? length : kRoom);
    put_host(handle, &request);
  }
  Capture capture;
  int result = look_at(handle, stream, &capture);
  if (result != PICKET_OK || capture.status != kCuCaptureNone) return result;
  uint32_t id = link_to(number);
  return stamp_now(handle, stream, &id, 1);
}

int mark(picket_handle* handle, uint32_t phase, int type, const picket_call_payload* call) {
  if (type != PICKET_HOST_BEGIN && type != PICKET_HOST_END)
    return fail(handle, PICKET_ERR_ARGUMENT, "type is neither PICKET_HOST_BEGIN nor PICKET_HOST_END");
  if (!known(handle, phase)) return unknown_phase(handle, phase);
  picket_host_record record = {};
  record.type = uint16_t(type);
  record.phase = uint16_t(phase);
  record.payload.call = call ? *call : picket_call_payload{-1, -1, -1, 0};
  put_host(handle, &record);
  return PICKET_OK;
}

// No exception crosses the C interface; only memory that is used up throws here.
template <typename Call>
int guarded(picket_handle* handle, Call call) {
  if (is_off(handle)) return PICKET_OFF;
  try {
    return call();
  } catch (...) {
    return PICKET_ERR_SYSTEM;
  }
}

}  // namespace
}  // namespace picket

using namespace picket;

extern "C" int picket_phase_register(picket_t* handle, const picket_phase* phase, uint32_t* id) {
  return guarded(handle, [&] {
    if (!phase || !id) return fail(handle, PICKET_ERR_ARGUMENT, "phase or id is NULL");
    std::string error;
    int result;
    {
      std::lock_guard<std::mutex> guard(handle->mutex);
      result = handle->phases.add(handle->segment.get(), *phase, id, &error);
      if (handle->gpu && phase->kind == PICKET_KIND_COMM) handle->gpu->expect_collectives();
    }
    return result == PICKET_OK ? result : fail(handle, result, error);
  });
}

extern "C" int picket_begin(picket_t* handle, uint32_t phase, void* stream) {
  return guarded(handle, [&] { return border(handle, phase, stream, PICKET_FENCE_BEGIN); });
}

extern "C" int picket_end(picket_t* handle, uint32_t phase, void* stream) {
  return guarded(handle, [&] { return border(handle, phase, stream, PICKET_FENCE_END); });
}

extern "C" int picket_begin_call(picket_t* handle, uint32_t phase, void* stream, const picket_call_payload* call) {
  return guarded(handle, [&] { return begin_call(handle, phase, stream, call); });
}

extern "C" int picket_step(picket_t* handle, const picket_step_payload* payload, const char* const* requests,
                           void* stream) {
  return guarded(handle, [&] { return step(handle, payload, requests, stream); });
}

extern "C" picket_step_payload picket_step_unknown(void) {
  return {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, -1, 0};
}

extern "C" int picket_mark(picket_t* handle, uint32_t phase, int type, const picket_call_payload* call) {
  return guarded(handle, [&] { return mark(handle, phase, type, call); });
}

extern "C" int picket_form(picket_t* handle, int form) {
  return guarded(handle, [&] {
    if (!is_form(form))
      return fail(handle, PICKET_ERR_ARGUMENT, "form is unknown");
    handle->form = form;
    return PICKET_OK;
  });
}

extern "C" int picket_overhead(picket_t* handle, char* text, size_t size) {
  return guarded(handle, [&] {
    if (!text || size == 0) return fail(handle, PICKET_ERR_ARGUMENT, "text is NULL or has no room");
    std::lock_guard<std::mutex> guard(handle->mutex);
    size_t length = handle->overhead.reason().copy(text, size - 1);
    text[length] = 0;
    return PICKET_OK;
  });
}

extern "C" const picket_control* picket_control_of(const picket_t* handle) {
  return handle ? handle->segment->control() : nullptr;
}

extern "C" const char* picket_path(const picket_t* handle) { return handle ? handle->segment->path().c_str() : ""; }
