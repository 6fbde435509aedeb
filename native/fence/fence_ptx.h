// The kernels, as PTX for every GPU since Volta. Written by hand: nvcc 13 can no longer emit this old a version,
// and the driver compiles it for the GPU at hand when a segment is opened. test/native/gpu_check.cc runs it.
// Since Hopper a fence waits for its predecessors itself, so that it may be launched before they are through, and lets
// its successors go as soon as it has read the clock (programmatic dependent launch).
#pragma once

#include <cstdint>
#include <string>

namespace picket {

constexpr unsigned kMaxMerged = 8;

// Argument of picket_fence: writes ids[0..count) with one time, from the first that begins a phase on with one lead_ns
// later: in line, what begins waits for the fence itself. Addresses are the device's.
struct FenceArgs {
  uint64_t cursor;      // u64 in device memory: records claimed
  uint64_t ring;        // the segment's fence ring, mapped
  uint32_t mask, log2;  // capacity - 1 and its logarithm
  uint32_t count;
  uint32_t ids[kMaxMerged];
  uint32_t lead_ns;
};
static_assert(sizeof(FenceArgs) == 64, "as the PTX below reads it");

// Argument of picket_clock: answers `rounds` requests of the host with the time, each within timeout_ns.
struct ClockArgs {
  uint64_t request;  // u64, mapped: number of the round the host asks for
  uint64_t replies;  // u64[1 + rounds], mapped: [0] <- records claimed + 1, [r] <- time of round r
  uint64_t cursor;
  uint64_t timeout_ns;
  uint32_t rounds, reserved;
};
static_assert(sizeof(ClockArgs) == 40, "as the PTX below reads it");

constexpr char kFencePtx[] = R"PTX(
.version 7.0
.target sm_70
.address_size 64

.visible .entry picket_fence(.param .align 8 .b8 args[64])
{
  .reg .pred  %more, %begins;
  .reg .b32   %mask, %log2, %count, %id, %index, %slot, %type;
  .reg .b64   %time, %lead, %cursor, %ring, %claim, %number, %lap, %stamp, %identity, %address, %param;

  // HOPPER griddepcontrol.wait;
  mov.u64     %time, %globaltimer;
  // HOPPER griddepcontrol.launch_dependents;
  ld.param.u64 %cursor, [args];
  ld.param.u64 %ring, [args+8];
  ld.param.u32 %mask, [args+16];
  ld.param.u32 %log2, [args+20];
  ld.param.u32 %count, [args+24];
  ld.param.u32 %type, [args+60];
  cvt.u64.u32 %lead, %type;
  cvta.to.global.u64 %cursor, %cursor;
  cvta.to.global.u64 %ring, %ring;
  cvt.u64.u32 %claim, %count;
  atom.global.relaxed.gpu.add.u64 %number, [%cursor], %claim;
  mov.u64     %param, args;
  mov.u32     %index, 0;
  setp.eq.u32 %more, %count, 0;
  @%more bra  DONE;
NEXT:
  ld.param.u32 %id, [%param+28];
  shr.u32     %type, %id, 30;
  setp.eq.u32 %begins, %type, 0;
  @%begins add.u64 %time, %time, %lead;
  @%begins mov.u64 %lead, 0;
  // stamp = time | (number / capacity + 1) % 4 << 62
  shr.u64     %lap, %number, %log2;
  add.u64     %lap, %lap, 1;
  shl.b64     %lap, %lap, 62;
  or.b64      %stamp, %time, %lap;
  // slot = ring + number % capacity * 16
  cvt.u32.u64 %slot, %number;
  and.b32     %slot, %slot, %mask;
  mad.wide.u32 %address, %slot, 16, %ring;
  // identity = id | (number + 1) << 32
  add.u64     %number, %number, 1;
  shl.b64     %identity, %number, 32;
  cvt.u64.u32 %claim, %id;
  or.b64      %identity, %identity, %claim;
  st.relaxed.sys.global.v2.u64 [%address], {%stamp, %identity};
  add.u64     %param, %param, 4;
  add.u32     %index, %index, 1;
  setp.lt.u32 %more, %index, %count;
  @%more bra  NEXT;
DONE:
  ret;
}

.visible .entry picket_clock(.param .align 8 .b8 args[40])
{
  .reg .pred  %yes;
  .reg .b32   %round, %rounds;
  .reg .b64   %start, %now, %request, %reply, %cursor, %timeout, %seen, %wanted;

  ld.param.u64 %request, [args];
  ld.param.u64 %reply, [args+8];
  ld.param.u64 %cursor, [args+16];
  ld.param.u64 %timeout, [args+24];
  ld.param.u32 %rounds, [args+32];
  cvta.to.global.u64 %request, %request;
  cvta.to.global.u64 %reply, %reply;
  cvta.to.global.u64 %cursor, %cursor;
  ld.relaxed.gpu.global.u64 %seen, [%cursor];
  add.u64     %seen, %seen, 1;
  st.relaxed.sys.global.u64 [%reply], %seen;
  mov.u32     %round, 1;
ROUND:
  mov.u64     %start, %globaltimer;
  cvt.u64.u32 %wanted, %round;
POLL:
  ld.relaxed.sys.global.u64 %seen, [%request];
  setp.ge.u64 %yes, %seen, %wanted;
  @%yes bra   STAMP;
  mov.u64     %now, %globaltimer;
  sub.u64     %now, %now, %start;
  setp.lt.u64 %yes, %now, %timeout;
  @%yes bra   POLL;
  ret;
STAMP:
  mov.u64     %now, %globaltimer;  // after the branch, hence after the request was seen
  add.u64     %reply, %reply, 8;
  st.relaxed.sys.global.u64 [%reply], %now;
  add.u32     %round, %round, 1;
  setp.le.u32 %yes, %round, %rounds;
  @%yes bra   ROUND;
  ret;
}

// Keeps the stream back until the host stores `value` or more, or the time is up.
.visible .entry picket_gate(.param .u64 word, .param .u64 value, .param .u64 timeout_ns)
{
  .reg .pred  %yes;
  .reg .b64   %word, %value, %timeout, %start, %now;

  ld.param.u64 %word, [word];
  ld.param.u64 %value, [value];
  ld.param.u64 %timeout, [timeout_ns];
  cvta.to.global.u64 %word, %word;
  mov.u64     %start, %globaltimer;
SHUT:
  ld.relaxed.sys.global.u64 %now, [%word];
  setp.ge.u64 %yes, %now, %value;
  @%yes bra   OPEN;
  mov.u64     %now, %globaltimer;
  sub.u64     %now, %now, %start;
  setp.lt.u64 %yes, %now, %timeout;
  @%yes bra   SHUT;
OPEN:
  ret;
}

// Work for the measurement of what fences cost.
.visible .entry picket_load(.param .u64 duration_ns)
{
  .reg .pred  %more;
  .reg .b64   %start, %now, %duration;

  ld.param.u64 %duration, [duration_ns];
  mov.u64     %start, %globaltimer;
AGAIN:
  mov.u64     %now, %globaltimer;
  sub.u64     %now, %now, %start;
  setp.lt.u64 %more, %now, %duration;
  @%more bra  AGAIN;
  ret;
}
)PTX";

// The PTX for a GPU of this compute capability.
inline std::string fence_ptx(int capability_major) {
  std::string ptx = kFencePtx;
  if (capability_major < 9) return ptx;
  auto swap = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = ptx.find(from, at)) != std::string::npos; at += to.size())
      ptx.replace(at, from.size(), to);
  };
  swap(".version 7.0\n.target sm_70", ".version 7.8\n.target sm_90");
  swap("// HOPPER ", "");
  return ptx;
}

}  // namespace picket
