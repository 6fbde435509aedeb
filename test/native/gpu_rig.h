// The library on a real GPU and a reader of its records, as gpu_check.cc uses them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "../../native/include/picket_fence.h"
#include "../../native/ring/ring_reader.h"
#include "check.h"

namespace check {

using namespace picket;

struct Rig {
  check::Directory directory;
  picket_t* handle = nullptr;
  std::unique_ptr<Segment> segment;
  std::unique_ptr<RingReader> reader;
  uint32_t attention, mlp;

  explicit Rig(int form = PICKET_FORM_SIDE, uint32_t fence_capacity = 1 << 16, double budget = -1) {
    picket_options options = {};
    options.size = sizeof(options);
    options.device = 0;
    options.directory = directory.path().c_str();
    options.fence_capacity = fence_capacity;
    options.clock_period_ms = 50;
    options.form = form;
    options.overhead_budget = budget;
    if (picket_open(&options, &handle) != PICKET_OK) std::fprintf(stderr, "%s\n", picket_error());
    CHECK(handle != nullptr);
    attention = phase("attention");
    mlp = phase("mlp");
    std::string code, error;
    segment = Segment::open(picket_path(handle), true, &code, &error);
    CHECK_EQ(error, "");
    reader = std::make_unique<RingReader>(segment.get());
  }
  ~Rig() { picket_close(handle); }
  uint32_t phase(const char* name) {
    picket_phase description = {name, PICKET_KIND_COMPUTE, -1, nullptr, nullptr, -1};
    uint32_t id = 0;
    CHECK_EQ(picket_phase_register(handle, &description, &id), PICKET_OK);
    return id;
  }
  void begin(uint32_t phase, void* stream) { CHECK_EQ(picket_begin(handle, phase, stream), PICKET_OK); }
  void end(uint32_t phase, void* stream) { CHECK_EQ(picket_end(handle, phase, stream), PICKET_OK); }
  const picket_control* control() const { return picket_control_of(handle); }
};

struct Seen {
  uint64_t count = 0;
  std::map<uint32_t, uint64_t> last;  // per lane: time
  std::map<uint32_t, std::vector<uint32_t>> open;
  std::map<uint32_t, std::vector<uint64_t>> durations;  // by phase
  std::map<uint32_t, std::vector<uint64_t>> begun;
};

// Drains a batch, checking order and nesting within each lane. False when nothing was there.
inline bool drain(Rig& rig, Seen& seen) {
  static uint64_t times[4096];
  static uint32_t ids[4096];
  Drained drained = rig.reader->drain_fences(times, ids, 4096, monotonic_ns(), false);
  if (drained.lost) seen.open.clear(), seen.begun.clear();
  for (uint32_t i = 0; i < drained.count; i++) {
    uint32_t type = ids[i] >> PICKET_FENCE_TYPE_SHIFT, phase = ids[i] & 0xffff;
    uint32_t lane = ids[i] >> PICKET_FENCE_LANE_SHIFT & (PICKET_MAX_LANES - 1);
    CHECK(times[i] >= seen.last[lane]);
    seen.last[lane] = times[i];
    if (type == PICKET_FENCE_BEGIN) {
      seen.open[lane].push_back(phase);
      seen.begun[lane].push_back(times[i]);
    } else if (type == PICKET_FENCE_END && !seen.open[lane].empty()) {
      CHECK_EQ(seen.open[lane].back(), phase);
      seen.durations[phase].push_back(times[i] - seen.begun[lane].back());
      seen.open[lane].pop_back();
      seen.begun[lane].pop_back();
    }
  }
  seen.count += drained.count;
  return drained.count != 0 || drained.lost != 0;
}

}  // namespace check
