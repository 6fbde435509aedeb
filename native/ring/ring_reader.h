// Reading the rings: bounded copies out, and exact counts of what was lost. One reader a segment. No clock, no I/O.
#pragma once

#include "../include/picket_ring.h"
#include "segment.h"

namespace picket {

struct Drained {
  uint32_t count = 0;  // records copied; numbered in a row from `first`
  uint64_t first = 0;  // number of the first of them
  uint64_t lost = 0;   // records lost directly before it
};

// How long a claimed record may stay invisible, while later ones are there, before it counts as lost.
constexpr uint64_t kHoleTimeoutNs = 1000000000;

// Cursor of one ring.
struct Position {
  uint64_t next = 0;
  uint64_t lost = 0;
  uint64_t blocked_since_ns = 0;  // when `next` was first found missing; 0: it is not
};

class RingReader {
 public:
  // Goes on where the last reader committed.
  explicit RingReader(Segment* segment);

  // Copies at most `max` fence records: times in the segment's clock and ids. Stops before a gap, which the following
  // call reports as `lost`; nothing more is there when both counts are 0. `now_ns` is any monotonic clock; `final`: the
  // writer is dead, so nothing is waited for.
  Drained drain_fences(uint64_t* times, uint32_t* ids, uint32_t max, uint64_t now_ns, bool final);
  // The same for whole host records.
  Drained drain_hosts(picket_host_record* records, uint32_t max, uint64_t now_ns, bool final);
  // Copies the clock samples written since the last call, oldest first, at most `max`; overwritten ones are skipped.
  uint32_t drain_clocks(picket_clock_sample* samples, uint32_t max);

  // Stores the positions in the segment: a later reader starts there.
  void commit();

  uint64_t fences_lost() const { return fence_.lost; }
  uint64_t hosts_lost() const { return host_.lost; }

 private:
  enum class Slot { kReady, kMissing, kOvertaken };
  struct Look {
    Slot slot;
    uint64_t ahead = 0;  // kOvertaken: by how many numbers
  };
  Look look_fence(uint64_t number, uint64_t* time, uint32_t* id) const;
  Look look_host(uint64_t number, picket_host_record* record) const;
  template <typename Take, typename Peek>
  Drained drain(Position* position, uint32_t max, uint32_t capacity, uint64_t claimed, uint64_t now_ns, bool final,
                Take take, Peek peek);

  Segment* segment_;
  Position fence_, host_;
  uint64_t clock_next_ = 0;
  const uint32_t fence_capacity_, host_capacity_, clock_capacity_;
  const unsigned fence_log2_;
  const bool host_clock_;  // fence_claimed is exact
};

}  // namespace picket
