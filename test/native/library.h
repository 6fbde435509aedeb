// The library on the host clock, as its tests use it.
#pragma once

#include "../../native/include/picket_fence.h"
#include "../../native/ring/ring_reader.h"
#include "check.h"

namespace check {

using picket::RingReader;
using picket::Segment;

inline picket_options options_for(const check::Directory& directory) {
  picket_options options = {};
  options.size = sizeof(options);
  options.device = PICKET_DEVICE_NONE;
  options.directory = directory.path().c_str();
  return options;
}

inline picket_t* open_for(const picket_options& options) {
  picket_t* handle = nullptr;
  CHECK_EQ(picket_open(&options, &handle), PICKET_OK);
  return handle;
}

inline uint32_t register_phase(picket_t* handle, const char* name, int layer = -1) {
  picket_phase phase = {name, PICKET_KIND_COMPUTE, layer, nullptr, nullptr, -1};
  uint32_t id = 0;
  CHECK_EQ(picket_phase_register(handle, &phase, &id), PICKET_OK);
  return id;
}

inline std::unique_ptr<Segment> reader_of(picket_t* handle) {
  std::string code, error;
  auto segment = Segment::open(picket_path(handle), true, &code, &error);
  CHECK_EQ(error, "");
  return segment;
}

struct Fences {
  std::vector<uint64_t> times;
  std::vector<uint32_t> ids;
};
inline Fences drain_all(Segment& segment) {
  RingReader reader(&segment);
  Fences all;
  uint64_t times[256];
  uint32_t ids[256];
  while (uint32_t count = reader.drain_fences(times, ids, 256, 1, false).count) {
    all.times.insert(all.times.end(), times, times + count);
    all.ids.insert(all.ids.end(), ids, ids + count);
  }
  return all;
}

}  // namespace check
