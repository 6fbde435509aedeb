// How long phases lasted, read from the records that the segment still holds.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "../ring/segment.h"

namespace picket {

// The shortest span in nanoseconds of each outermost computation (a forward pass), by phase id, over the newest
// records. What one of its collectives lasted longer than the shortest of its kind counts as waiting for other ranks
// and is taken off. Phases of kind step are looked through.
std::unordered_map<uint32_t, double> shortest_spans(Segment& segment);

}  // namespace picket
