// Small tables of a segment's writer: phases by description, lanes by stream. Callers lock.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "../include/picket_fence.h"
#include "../ring/segment.h"

namespace picket {

class Phases {
 public:
  // Gives the id of an equal earlier registration or writes a new entry. Returns PICKET_OK or an error and its text.
  int add(Segment* segment, const picket_phase& phase, uint32_t* id, std::string* error);
  // The id of the same phase for records that stand for `weight` occurrences; the phase itself where no id is left.
  uint32_t weighted(Segment* segment, uint32_t phase, float weight);

 private:
  int put(Segment* segment, const picket_phase_entry& entry, uint32_t* id, std::string* error);

  std::map<std::string, uint32_t> ids_;  // by the entry's bytes
};

class Lanes {
 public:
  // The lane of a stream (or thread), another one for what is captured from it. False when all lanes are taken.
  bool of(uint64_t key, bool captured, uint32_t* lane);

 private:
  std::unordered_map<uint64_t, uint32_t> lanes_[2];
  uint32_t used_ = 0;
};

}  // namespace picket
