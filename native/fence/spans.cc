#include "spans.h"

#include <algorithm>
#include <vector>

#include "../ring/atomics.h"
#include "../ring/ring_writer.h"

namespace picket {
namespace {

constexpr uint32_t kLookBack = 1 << 14;  // records

struct Open {
  uint32_t phase;
  uint64_t time;
};
struct Lane {
  std::vector<Open> open;
  std::unordered_map<uint32_t, std::vector<uint64_t>> collectives;  // durations in the outermost phase, by phase
};

// Number of the newest record + 1; 0 for none. Sequences are 32 bits, and all in the ring are near each other.
uint32_t newest(const picket_fence_record* ring, uint32_t capacity) {
  uint32_t latest = 0;
  for (uint32_t slot = 0; slot < capacity; slot++) {
    uint32_t sequence = uint32_t(load_acquire(&ring[slot].identity) >> PICKET_FENCE_SEQUENCE_SHIFT);
    if (sequence != 0 && (latest == 0 || int32_t(sequence - latest) > 0)) latest = sequence;
  }
  return latest;
}

double waited(const Lane& lane) {
  double total = 0;
  for (auto& [phase, durations] : lane.collectives) {
    uint64_t least = *std::min_element(durations.begin(), durations.end());
    for (uint64_t duration : durations) total += double(duration - least);
  }
  return total;
}

}  // namespace

std::unordered_map<uint32_t, double> shortest_spans(Segment& segment) {
  std::unordered_map<uint32_t, double> spans;
  std::unordered_map<uint32_t, Lane> lanes;
  uint32_t capacity = segment.constant().fence_capacity, last = newest(segment.fences(), capacity);
  uint32_t phases = load_acquire(&segment.control()->phase_count);
  for (uint32_t sequence = last - std::min({last, capacity, kLookBack}) + 1; last && sequence != last + 1; sequence++) {
    const picket_fence_record& record = segment.fences()[(sequence - 1) & (capacity - 1)];
    uint64_t identity = load_acquire(&record.identity);
    uint64_t time = load_relaxed(&record.stamp) & ((uint64_t(1) << PICKET_FENCE_LAP_SHIFT) - 1);
    uint32_t id = uint32_t(identity), type = id >> PICKET_FENCE_TYPE_SHIFT, phase = id & 0xffff;
    Lane& lane = lanes[id >> PICKET_FENCE_LANE_SHIFT & (PICKET_MAX_LANES - 1)];
    if (uint32_t(identity >> PICKET_FENCE_SEQUENCE_SHIFT) != sequence) lane = Lane();
    if (type == PICKET_FENCE_LINK || phase >= phases) continue;
    uint8_t kind = segment.phases()[phase].kind;
    if (kind == PICKET_KIND_STEP) continue;
    if (type == PICKET_FENCE_BEGIN) {
      if (lane.open.empty()) lane.collectives.clear();
      lane.open.push_back({phase, time});
      continue;
    }
    while (!lane.open.empty() && lane.open.back().phase != phase) lane.open.pop_back();
    if (lane.open.empty()) continue;
    uint64_t start = lane.open.back().time;
    lane.open.pop_back();
    if (time < start) continue;
    if (kind == PICKET_KIND_COMM) lane.collectives[phase].push_back(time - start);
    if (!lane.open.empty() || kind != PICKET_KIND_COMPUTE) continue;
    double span = double(time - start) - waited(lane);
    auto [known, is_new] = spans.try_emplace(phase, span);
    if (!is_new && span < known->second) known->second = span;
  }
  return spans;
}

}  // namespace picket
