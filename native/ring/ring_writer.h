// Writing into the rings from host threads; the protocols are those of picket_ring.h. Any number of threads.
#pragma once

#include <cstring>

#include "../include/picket_ring.h"
#include "atomics.h"

namespace picket {

// The number of laps is kept in both words of a record; see "FENCE RING" in picket_ring.h.
inline uint64_t fence_stamp(uint64_t time_ns, uint64_t number, unsigned capacity_log2) {
  uint64_t lap = (number >> capacity_log2) + 1;
  return (time_ns & ((uint64_t(1) << PICKET_FENCE_LAP_SHIFT) - 1)) | lap << PICKET_FENCE_LAP_SHIFT;
}
inline uint64_t fence_identity(uint32_t id, uint64_t number) {
  return id | (number + 1) << PICKET_FENCE_SEQUENCE_SHIFT;
}
// By how many records the slot's owner is later than record `number`; negative when it is earlier.
inline int32_t fence_ahead(uint64_t identity, uint64_t number) {
  return int32_t(uint32_t(identity >> PICKET_FENCE_SEQUENCE_SHIFT) - uint32_t(number + 1));
}
inline uint32_t fence_id(uint32_t type, uint32_t lane, uint32_t phase) {
  return type << PICKET_FENCE_TYPE_SHIFT | lane << PICKET_FENCE_LANE_SHIFT | phase;
}

// Writes `count` records of one time, numbered in a row.
inline void write_fences(picket_control* control, picket_fence_record* ring, uint32_t capacity, uint64_t time_ns,
                         const uint32_t* ids, unsigned count) {
  unsigned log2 = unsigned(__builtin_ctz(capacity));
  uint64_t first = add_relaxed(&control->fence_claimed, uint64_t(count));
  for (unsigned i = 0; i < count; i++) {
    picket_fence_record* slot = ring + ((first + i) & (capacity - 1));
    uint64_t identity = fence_identity(ids[i], first + i);
    uint64_t current = load_relaxed(&slot->identity);
    // A thread preempted for four laps would otherwise put its time under a later record of the same lap number.
    if (current & PICKET_FENCE_BUSY || fence_ahead(current, first + i) > 0 ||
        !__atomic_compare_exchange_n(&slot->identity, &current, identity | PICKET_FENCE_BUSY, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      continue;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    store_relaxed(&slot->stamp, fence_stamp(time_ns, first + i, log2));
    store_release(&slot->identity, identity);
  }
}

// Writes one record; its `commit` is set here. Returns its number, also when the slot was taken and the record is lost.
inline uint64_t write_host(picket_control* control, picket_host_record* ring, uint32_t capacity,
                           const picket_host_record& record) {
  uint64_t number = add_relaxed(&control->host_claimed, uint64_t(1));
  picket_host_record* slot = ring + (number & (capacity - 1));
  uint64_t done = (number + 1) << 1;
  uint64_t current = load_relaxed(&slot->commit);
  if ((current & 1) != 0 || current > done) return number;
  if (!__atomic_compare_exchange_n(&slot->commit, &current, done | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return number;
  // A reader that sees any word of the new record also sees the busy mark when it looks at commit again.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  constexpr unsigned kHead = sizeof(record.commit);
  publish_words(&slot->time_ns, &record.time_ns, sizeof(record) - kHead);
  store_release(&slot->commit, done);
  return number;
}

}  // namespace picket
