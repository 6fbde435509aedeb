// Every constant and offset that a reader in another language needs: shared by the emitter and by the addon, which
// compares what it was compiled with to what was emitted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../include/picket_ring.h"

namespace picket {

struct LayoutField {
  const char* section;
  const char* name;  // snake_case
  uint64_t value;
};

#define PICKET_FIELD(section, type, field) {section, #field, offsetof(type, field)}
#define PICKET_SIZE(section, type) {section, "size", sizeof(type)}
#define PICKET_VALUE(section, name, value) {section, name, value}

inline const std::vector<LayoutField>& layout_table() {
  static const std::vector<LayoutField> table = {
      PICKET_VALUE("version", "major", PICKET_RING_VERSION_MAJOR),
      PICKET_VALUE("version", "minor", PICKET_RING_VERSION_MINOR),

      PICKET_SIZE("control", picket_control),
      PICKET_FIELD("control", picket_control, magic),
      PICKET_FIELD("control", picket_control, version_major),
      PICKET_FIELD("control", picket_control, version_minor),
      PICKET_FIELD("control", picket_control, fence_capacity),
      PICKET_FIELD("control", picket_control, fence_claimed),
      PICKET_FIELD("control", picket_control, host_claimed),
      PICKET_FIELD("control", picket_control, state),
      PICKET_FIELD("control", picket_control, heartbeat_ns),
      PICKET_FIELD("control", picket_control, plans),
      PICKET_FIELD("control", picket_control, overhead_budget),
      PICKET_FIELD("control", picket_control, overhead_predicted),
      PICKET_FIELD("control", picket_control, fence_read),
      PICKET_FIELD("control", picket_control, attributes),

      PICKET_SIZE("fence", picket_fence_record),
      PICKET_VALUE("fence", "phase_bits", PICKET_FENCE_PHASE_BITS),
      PICKET_VALUE("fence", "lane_shift", PICKET_FENCE_LANE_SHIFT),
      PICKET_VALUE("fence", "lane_bits", PICKET_FENCE_LANE_BITS),
      PICKET_VALUE("fence", "type_shift", PICKET_FENCE_TYPE_SHIFT),
      PICKET_VALUE("fence", "begin", PICKET_FENCE_BEGIN),
      PICKET_VALUE("fence", "end", PICKET_FENCE_END),
      PICKET_VALUE("fence", "link", PICKET_FENCE_LINK),

      PICKET_SIZE("host", picket_host_record),
      PICKET_FIELD("host", picket_host_record, commit),
      PICKET_FIELD("host", picket_host_record, time_ns),
      PICKET_FIELD("host", picket_host_record, type),
      PICKET_FIELD("host", picket_host_record, phase),
      PICKET_FIELD("host", picket_host_record, thread),
      PICKET_FIELD("host", picket_host_record, payload),
      PICKET_VALUE("host", "step", PICKET_HOST_STEP),
      PICKET_VALUE("host", "request", PICKET_HOST_REQUEST),
      PICKET_VALUE("host", "begin", PICKET_HOST_BEGIN),
      PICKET_VALUE("host", "end", PICKET_HOST_END),
      PICKET_VALUE("host", "call", PICKET_HOST_CALL),

      PICKET_SIZE("step", picket_step_payload),
      PICKET_FIELD("step", picket_step_payload, step),
      PICKET_FIELD("step", picket_step_payload, context_tokens),
      PICKET_FIELD("step", picket_step_payload, cached_tokens),
      PICKET_FIELD("step", picket_step_payload, recomputed_tokens),
      PICKET_FIELD("step", picket_step_payload, tokens),
      PICKET_FIELD("step", picket_step_payload, prefill_tokens),
      PICKET_FIELD("step", picket_step_payload, decode_tokens),
      PICKET_FIELD("step", picket_step_payload, batch),
      PICKET_FIELD("step", picket_step_payload, graph),
      PICKET_FIELD("step", picket_step_payload, microbatch),
      PICKET_FIELD("step", picket_step_payload, running),
      PICKET_FIELD("step", picket_step_payload, waiting),
      PICKET_FIELD("step", picket_step_payload, preempted),
      PICKET_FIELD("step", picket_step_payload, requests),
      PICKET_FIELD("step", picket_step_payload, kv_usage),

      PICKET_SIZE("request", picket_request_payload),
      PICKET_FIELD("request", picket_request_payload, step_record),
      PICKET_FIELD("request", picket_request_payload, index),
      PICKET_FIELD("request", picket_request_payload, length),
      PICKET_FIELD("request", picket_request_payload, text),
      PICKET_VALUE("request", "text_size", sizeof(picket_request_payload::text)),

      PICKET_SIZE("call", picket_call_payload),
      PICKET_FIELD("call", picket_call_payload, bytes),
      PICKET_FIELD("call", picket_call_payload, sequence),
      PICKET_FIELD("call", picket_call_payload, microbatch),

      PICKET_SIZE("phase", picket_phase_entry),

      PICKET_SIZE("clock", picket_clock_sample),
      PICKET_FIELD("clock", picket_clock_sample, gpu_ns),
      PICKET_FIELD("clock", picket_clock_sample, monotonic_ns),
      PICKET_FIELD("clock", picket_clock_sample, realtime_ns),
      PICKET_FIELD("clock", picket_clock_sample, uncertainty_ns),
      PICKET_FIELD("clock", picket_clock_sample, fence_claimed),
      PICKET_VALUE("clock", "monotonic", PICKET_CLOCK_MONOTONIC),
      PICKET_VALUE("clock", "gpu", PICKET_CLOCK_GPU),
  };
  return table;
}

#undef PICKET_FIELD
#undef PICKET_SIZE
#undef PICKET_VALUE

// fence_claimed -> fenceClaimed
inline std::string camel_case(const char* name) {
  std::string out;
  for (bool upper = false; *name; name++) {
    if (*name == '_') {
      upper = true;
    } else {
      out += upper ? char(*name - 'a' + 'A') : *name;
      upper = false;
    }
  }
  return out;
}

}  // namespace picket
