#include "names.h"

#include <string.h>

#include "../ring/atomics.h"

namespace picket {
namespace {

template <size_t N>
bool put_text(char (&to)[N], const char* from, const char* field, std::string* error) {
  size_t length = from ? strlen(from) : 0;
  if (length >= N) {
    *error = std::string("phase ") + field + " \"" + from + "\" is longer than " + std::to_string(N - 1) + " bytes";
    return false;
  }
  if (length) memcpy(to, from, length);
  return true;
}

}  // namespace

int Phases::add(Segment* segment, const picket_phase& phase, uint32_t* id, std::string* error) {
  picket_phase_entry entry = {};
  if (!phase.name || !*phase.name) return *error = "a phase needs a name", PICKET_ERR_ARGUMENT;
  if (phase.kind < PICKET_KIND_COMPUTE || phase.kind > PICKET_KIND_STEP)
    return *error = "phase kind " + std::to_string(phase.kind) + " is unknown", PICKET_ERR_ARGUMENT;
  if (!put_text(entry.name, phase.name, "name", error) || !put_text(entry.op, phase.op, "op", error) ||
      !put_text(entry.group, phase.group, "group", error))
    return PICKET_ERR_ARGUMENT;
  entry.kind = uint8_t(phase.kind);
  entry.layer = phase.layer;
  entry.bytes = phase.bytes;
  return put(segment, entry, id, error);
}

uint32_t Phases::weighted(Segment* segment, uint32_t phase, float weight) {
  if (weight == 1) return phase;
  picket_phase_entry entry = segment->phases()[phase];
  entry.weight = weight;
  std::string error;
  uint32_t id = phase;
  put(segment, entry, &id, &error);
  return id;
}

int Phases::put(Segment* segment, const picket_phase_entry& entry, uint32_t* id, std::string* error) {
  std::string key(reinterpret_cast<const char*>(&entry), sizeof(entry));
  auto known = ids_.find(key);
  if (known != ids_.end()) return *id = known->second, PICKET_OK;
  uint32_t next = uint32_t(ids_.size());
  if (next >= segment->constant().phase_capacity)
    return *error = "all " + std::to_string(next) + " phase entries are used; raise phase_capacity", PICKET_ERR_FULL;
  segment->phases()[next] = entry;
  store_release(&segment->control()->phase_count, next + 1);
  ids_.emplace(std::move(key), next);
  *id = next;
  return PICKET_OK;
}

bool Lanes::of(uint64_t key, bool captured, uint32_t* lane) {
  auto& lanes = lanes_[captured];
  auto known = lanes.find(key);
  if (known != lanes.end()) return *lane = known->second, true;
  if (used_ >= PICKET_MAX_LANES) return false;
  *lane = used_++;
  lanes.emplace(key, *lane);
  return true;
}

}  // namespace picket
