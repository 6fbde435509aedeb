// Which borders are stamped, so that what fences cost stays under the budget. Pure arithmetic.
#pragma once

#include <cstdint>
#include <map>

namespace picket {

// GPU time that one fence adds, by how it is put there; 0 until measured.
struct FenceCosts {
  double side_ns = 0, in_line_ns = 0, eager_ns = 0;
};

constexpr uint32_t kNoPhase = ~uint32_t(0);

// What one pass through an outermost phase (a forward pass) holds of one phase.
struct PhaseUse {
  uint32_t count = 0, depth = 0, parent = kNoPhase;  // parent: kNoPhase right inside the outermost phase
  bool comm = false;
};
using PhaseUses = std::map<uint32_t, PhaseUse>;  // by phase id

// How often in a captured pass a border of the second phase came right after one of the first, with no kernel between:
// both are written by one fence.
using Merges = std::map<std::pair<uint32_t, uint32_t>, uint32_t>;

// Of `stride` occurrences of a phase the middle one is stamped, with all that is inside it.
struct Plan {
  std::map<uint32_t, uint32_t> strides;  // of phases that are sampled
  uint32_t borders = 0, kept = 0;        // in one pass: all, and those stamped
  double fences = 0;                     // that write these
  double predicted = 0;                  // share of the pass that these cost; 0 unknown

  uint32_t stride_of(uint32_t phase) const;
};

inline bool is_sampled(uint32_t occurrence, uint32_t stride) { return occurrence % stride == stride / 2; }
// How many of `count` occurrences are stamped.
uint32_t sampled(uint32_t count, uint32_t stride);

// The densest plan whose fences, `price` ns each, stay under `budget`, a share of span_ns. Phases deep inside are thinned
// before those around them, computation before collectives; none is left out altogether, and collectives inside a
// stamped phase always are stamped, since they are taken off its time. Strides are odd, so that samples alternate
// between the members of pairs. Where span or price is unknown (0), or without a budget (0), everything is stamped.
Plan choose_plan(const PhaseUses& uses, const Merges& merges, double price, double span_ns, double budget);

}  // namespace picket
