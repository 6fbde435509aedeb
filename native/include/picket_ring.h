/* Picket ring ABI, version 1.1: the shared-memory segment between one engine process and the collector of its host.
 *
 * This header is the one source of truth. TypeScript and Python layouts are printed from it
 * (native/tools/emit_layout.cc) and a test fails when they are stale. It holds plain fixed-width data only, so gcc,
 * g++, nvcc and the emitter read it; the accessors that give the memory order written beside each field are in
 * native/ring/. C11 and C++17.
 *
 * One writer process and one GPU (or none) own a segment; a process with two GPUs opens two.
 *
 *   file   <directory>/picket-<pid>-<start ticks of the pid>-<n>, directory = $PICKET_DIR or /dev/shm
 *          The writer holds an open-file-description lock (F_OFD_SETLK) on byte 0 as long as it lives, in every PID
 *          namespace alike, and a reader that consumes holds one on byte 1. The kernel drops them at death, so a dead
 *          writer is known without trusting pids. A file gets its name when it is complete.
 *
 *   offset 0          fence_offset        host_offset         phase_offset        clock_offset         segment_size
 *          +----------+-------------------+-------------------+-------------------+--------------------+
 *          | control  | fence ring        | host ring         | phase table       | clock samples      |
 *          | 4096 B   | 16 B a record     | 128 B a record    | 128 B an entry    | 64 B a sample      |
 *          +----------+-------------------+-------------------+-------------------+--------------------+
 *   Capacities are powers of two; regions are page-aligned, in this order, and do not overlap. Little-endian.
 *
 * FENCE RING. Many writers (GPU threads of any stream, or host threads where no GPU is), one reader, no back pressure:
 * a writer never waits and overwrites the oldest. Writer of record number n (0, 1, 2 ... for the life of the segment):
 *     n    = atomic add on the cursor (device memory for a GPU, control.fence_claimed for the host)
 *     slot = n % fence_capacity
 *     stamp    <- time in ns (62 bits)   | ((n / fence_capacity + 1) % 4) << 62
 *     identity <- id (32 bits)           | (uint32)(n + 1) << 32
 *                 63      62 61                                          0
 *     stamp     | lap (2)   | time, nanoseconds                           |
 *                 63                      32 31 30 29 28 27     16 15     0
 *     identity  | sequence = low 32 of n+1  | type |  0  |  lane  | phase |
 * The record is visible when `sequence` is the expected one AND `lap` agrees: both words carry the number, so that a
 * 16-byte store seen in halves, in whichever order, is "not yet there", and no fence instruction is needed on the GPU.
 * A writer on the host first moves identity from any older value to its own with PICKET_FENCE_BUSY; one that finds the
 * slot busy or newer drops its own record, because a thread preempted for four laps would match a later `lap`.
 * A higher sequence than expected means overwritten: the reader counts the difference. A claimed record that stays
 * invisible for a second while later ones are there counts as lost. received + lost = written, always.
 *
 * HOST RING. Writer of record n claims it in control.host_claimed, moves the slot's `commit` from any older value to
 * busy (n + 1) << 1 | 1, fills the slot, and store-releases (n + 1) << 1. A writer that finds the slot busy or newer
 * drops its own record, which the reader counts by its missing number. The reader copies and then reads commit again.
 *
 * CLOCKS. Host times are CLOCK_MONOTONIC, fence times the clock named by control.clock_source. Clock samples tie both
 * to each other and to CLOCK_REALTIME with a stated uncertainty; whoever wants epoch times fits a line through them.
 *
 * COMPATIBILITY. A reader refuses another version_major. A higher minor only uses reserved bytes, new host record types
 * and new fence types, which an older reader skips. Reserved bytes are zero.
 */
#ifndef PICKET_RING_H_
#define PICKET_RING_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the picket ring is little-endian"
#endif

#define PICKET_RING_MAGIC 0x474E4952544B4350u /* "PCKTRING" read as bytes */
#define PICKET_RING_VERSION_MAJOR 1
#define PICKET_RING_VERSION_MINOR 1
#define PICKET_SEGMENT_PREFIX "picket-"
#define PICKET_LOCK_WRITER 0 /* byte of the file that the writer locks */
#define PICKET_LOCK_READER 1 /* byte that the consuming reader locks */

/* Fence identity, low half. */
#define PICKET_FENCE_PHASE_BITS 16
#define PICKET_FENCE_LANE_SHIFT 16
#define PICKET_FENCE_LANE_BITS 12 /* a lane is one stream, eager or captured: begins and ends nest within a lane */
#define PICKET_FENCE_BUSY (1u << 28) /* a host writer is filling the slot; never set by a GPU */
#define PICKET_FENCE_TYPE_SHIFT 30
#define PICKET_FENCE_BEGIN 0
#define PICKET_FENCE_END 1
#define PICKET_FENCE_LINK 2 /* phase = low 16 bits of a host record's number: it describes what begins here */
#define PICKET_FENCE_SEQUENCE_SHIFT 32
#define PICKET_FENCE_LAP_SHIFT 62

#define PICKET_MAX_PHASES (1u << PICKET_FENCE_PHASE_BITS)
#define PICKET_MAX_LANES (1u << PICKET_FENCE_LANE_BITS)
#define PICKET_MAX_HOST_CAPACITY (1u << 15) /* so that 16 bits of a LINK name one record */

/* control.state */
#define PICKET_STATE_OPEN 1
#define PICKET_STATE_CLOSED 2 /* the writer ended in order; without it and without its lock it died */

/* control.clock_source */
#define PICKET_CLOCK_MONOTONIC 0
#define PICKET_CLOCK_GPU 1 /* %globaltimer */

/* phase kind; the order of the wire's vocabulary */
#define PICKET_KIND_COMPUTE 0
#define PICKET_KIND_COMM 1
#define PICKET_KIND_MEMORY 2
#define PICKET_KIND_HOST 3
#define PICKET_KIND_STEP 4

/* host record type */
#define PICKET_HOST_STEP 1    /* a step begins: what it works on */
#define PICKET_HOST_REQUEST 2 /* one request of a step */
#define PICKET_HOST_BEGIN 3   /* a host phase begins at time_ns in thread */
#define PICKET_HOST_END 4
#define PICKET_HOST_CALL 5 /* describes the GPU phase that a LINK fence ties it to */

#if defined(__cplusplus)
#define PICKET_ASSERT(condition) static_assert(condition, #condition)
extern "C" {
#else
#define PICKET_ASSERT(condition) _Static_assert(condition, #condition)
#endif
#define PICKET_AT(type, field, offset) PICKET_ASSERT(offsetof(type, field) == (offset))

/* First page. "Constant": written before the file gets its name. Writer and reader words are 128 bytes apart. */
typedef struct picket_control {
  uint64_t magic; /* constant, like all down to reserved0 */
  uint16_t version_major, version_minor;
  uint32_t control_size;
  uint64_t segment_size;
  uint32_t fence_record_size, host_record_size, phase_entry_size, clock_sample_size;
  uint32_t fence_capacity, host_capacity, phase_capacity, clock_capacity; /* in records */
  uint64_t fence_offset, host_offset, phase_offset, clock_offset;         /* bytes from the start of the file */
  uint32_t pid;                                                           /* in the writer's PID namespace */
  int32_t device;                                                         /* CUDA ordinal in the process; -1 none */
  uint64_t pid_start_ticks;                                               /* field 22 of /proc/<pid>/stat */
  uint64_t pid_namespace;                                                 /* inode of /proc/<pid>/ns/pid */
  uint64_t created_realtime_ns, created_monotonic_ns;
  uint32_t clock_source, reserved0;
  char gpu_uuid[48], gpu_name[64]; /* NUL-padded UTF-8 */
  uint8_t reserved1[8];

  uint64_t
      fence_claimed; /* host clock: the cursor, fetch-add relaxed. GPU: lower bound, store-release at each sample */
  uint8_t reserved2[120];
  uint64_t host_claimed; /* fetch-add relaxed */
  uint8_t reserved3[120];
  uint32_t state;         /* store-release */
  uint32_t phase_count;   /* store-release after the entry */
  uint64_t clock_written; /* samples ever written; store-release after the sample */
  uint64_t heartbeat_ns;  /* CLOCK_MONOTONIC, relaxed, renewed with each clock sample or failed try at one */
  uint64_t graph_nodes;   /* fence nodes put into graphs under capture, relaxed like the three below */
  uint64_t graph_records; /* records that one replay of all those nodes writes */
  uint64_t launches;      /* fences launched on a stream */
  uint64_t errors;        /* calls that failed inside; fetch-add release */
  uint64_t plans;         /* choices of borders so far; store-release after the fields below, which tell of the last */
  float overhead_budget, overhead_predicted;              /* shares of a pass; 0: none, unknown */
  float fence_side_ns, fence_in_line_ns, fence_eager_ns;  /* measured cost of a fence; 0 unknown */
  float pass_us;                                          /* shortest pass seen */
  int32_t plan_form;                                      /* PICKET_FORM_*; -1 launched on the stream */
  uint32_t plan_borders, plan_kept;                       /* in a pass: all, and those stamped */
  uint8_t reserved4[28];
  char first_error[256]; /* written once, before errors leaves 0 */
  uint8_t reserved5[128];

  uint64_t fence_read, fence_lost; /* reader-owned: next record to read, records lost so far; store-release */
  uint64_t host_read, host_lost;
  uint8_t reserved6[96];
  uint8_t reserved7[896];
  char attributes[2048]; /* constant: a JSON object about job, run and rank, given by the writer; NUL-padded UTF-8 */
} picket_control;

typedef struct picket_fence_record {
  uint64_t stamp;    /* GPU: one 16-byte relaxed system-scope store. Host: relaxed */
  uint64_t identity; /* host: store-release. Read with load-acquire before and again after stamp */
} picket_fence_record;

/* What a step works on; -1 where unknown. */
typedef struct picket_step_payload {
  int64_t step, context_tokens, cached_tokens, recomputed_tokens;
  int32_t tokens, prefill_tokens, decode_tokens, batch;
  int32_t graph; /* CUDA graph batch size; 0 launched eagerly; -1 unknown */
  int32_t microbatch, running, waiting, preempted;
  int32_t requests; /* request records that follow */
  float kv_usage;   /* 0 to 1 */
  uint32_t reserved;
} picket_step_payload;

typedef struct picket_request_payload {
  uint64_t step_record; /* number of the step's host record */
  uint16_t index;       /* 0 .. requests-1 */
  uint16_t length;      /* bytes of the whole id; more than text holds: cut */
  uint32_t reserved;
  char text[88]; /* UTF-8, NUL-padded */
} picket_request_payload;

/* One call of a phase; -1 where unknown. */
typedef struct picket_call_payload {
  int64_t bytes, sequence; /* of a collective: message size, number within its group */
  int32_t microbatch;
  uint32_t reserved;
} picket_call_payload;

typedef struct picket_host_record {
  uint64_t commit;  /* 0 never written; (n + 1) << 1 | busy */
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  uint16_t type, phase;
  uint32_t thread; /* kernel thread id */
  union {
    picket_step_payload step;
    picket_request_payload request;
    picket_call_payload call;
    uint8_t bytes[104];
  } payload;
} picket_host_record;

/* Entry i describes phase id i; constant once phase_count > i. */
typedef struct picket_phase_entry {
  uint8_t kind, reserved0[3];
  int32_t layer;                    /* -1: none, or told by the order of occurrence */
  int64_t bytes;                    /* message size where every call has the same; -1 */
  char name[40], op[24], group[40]; /* NUL-padded UTF-8; op and group empty where not a collective */
  float weight;                     /* occurrences that one record stands for; 0: one */
  uint8_t reserved1[4];
} picket_phase_entry;

/* gpu_ns was read within uncertainty_ns of monotonic_ns; realtime_ns belongs to monotonic_ns. */
typedef struct picket_clock_sample {
  uint64_t commit; /* index + 1, store-release last; 0 while being written */
  uint64_t gpu_ns; /* 0 without a GPU */
  uint64_t monotonic_ns, realtime_ns, uncertainty_ns;
  uint64_t fence_claimed; /* records claimed by then */
  uint8_t reserved[16];
} picket_clock_sample;

PICKET_ASSERT(sizeof(picket_control) == 4096);
PICKET_AT(picket_control, magic, 0);
PICKET_AT(picket_control, version_major, 8);
PICKET_AT(picket_control, version_minor, 10);
PICKET_AT(picket_control, control_size, 12);
PICKET_AT(picket_control, segment_size, 16);
PICKET_AT(picket_control, fence_record_size, 24);
PICKET_AT(picket_control, host_record_size, 28);
PICKET_AT(picket_control, phase_entry_size, 32);
PICKET_AT(picket_control, clock_sample_size, 36);
PICKET_AT(picket_control, fence_capacity, 40);
PICKET_AT(picket_control, host_capacity, 44);
PICKET_AT(picket_control, phase_capacity, 48);
PICKET_AT(picket_control, clock_capacity, 52);
PICKET_AT(picket_control, fence_offset, 56);
PICKET_AT(picket_control, host_offset, 64);
PICKET_AT(picket_control, phase_offset, 72);
PICKET_AT(picket_control, clock_offset, 80);
PICKET_AT(picket_control, pid, 88);
PICKET_AT(picket_control, device, 92);
PICKET_AT(picket_control, pid_start_ticks, 96);
PICKET_AT(picket_control, pid_namespace, 104);
PICKET_AT(picket_control, created_realtime_ns, 112);
PICKET_AT(picket_control, created_monotonic_ns, 120);
PICKET_AT(picket_control, clock_source, 128);
PICKET_AT(picket_control, gpu_uuid, 136);
PICKET_AT(picket_control, gpu_name, 184);
PICKET_AT(picket_control, fence_claimed, 256);
PICKET_AT(picket_control, host_claimed, 384);
PICKET_AT(picket_control, state, 512);
PICKET_AT(picket_control, phase_count, 516);
PICKET_AT(picket_control, clock_written, 520);
PICKET_AT(picket_control, heartbeat_ns, 528);
PICKET_AT(picket_control, graph_nodes, 536);
PICKET_AT(picket_control, graph_records, 544);
PICKET_AT(picket_control, launches, 552);
PICKET_AT(picket_control, errors, 560);
PICKET_AT(picket_control, plans, 568);
PICKET_AT(picket_control, overhead_budget, 576);
PICKET_AT(picket_control, overhead_predicted, 580);
PICKET_AT(picket_control, fence_side_ns, 584);
PICKET_AT(picket_control, fence_in_line_ns, 588);
PICKET_AT(picket_control, fence_eager_ns, 592);
PICKET_AT(picket_control, pass_us, 596);
PICKET_AT(picket_control, plan_form, 600);
PICKET_AT(picket_control, plan_borders, 604);
PICKET_AT(picket_control, plan_kept, 608);
PICKET_AT(picket_control, first_error, 640);
PICKET_AT(picket_control, fence_read, 1024);
PICKET_AT(picket_control, fence_lost, 1032);
PICKET_AT(picket_control, host_read, 1040);
PICKET_AT(picket_control, host_lost, 1048);
PICKET_AT(picket_control, attributes, 2048);
PICKET_ASSERT(sizeof(picket_fence_record) == 16);
PICKET_AT(picket_fence_record, stamp, 0);
PICKET_AT(picket_fence_record, identity, 8);
PICKET_ASSERT(sizeof(picket_step_payload) == 80);
PICKET_AT(picket_step_payload, step, 0);
PICKET_AT(picket_step_payload, context_tokens, 8);
PICKET_AT(picket_step_payload, cached_tokens, 16);
PICKET_AT(picket_step_payload, recomputed_tokens, 24);
PICKET_AT(picket_step_payload, tokens, 32);
PICKET_AT(picket_step_payload, prefill_tokens, 36);
PICKET_AT(picket_step_payload, decode_tokens, 40);
PICKET_AT(picket_step_payload, batch, 44);
PICKET_AT(picket_step_payload, graph, 48);
PICKET_AT(picket_step_payload, microbatch, 52);
PICKET_AT(picket_step_payload, running, 56);
PICKET_AT(picket_step_payload, waiting, 60);
PICKET_AT(picket_step_payload, preempted, 64);
PICKET_AT(picket_step_payload, requests, 68);
PICKET_AT(picket_step_payload, kv_usage, 72);
PICKET_ASSERT(sizeof(picket_request_payload) == 104);
PICKET_AT(picket_request_payload, step_record, 0);
PICKET_AT(picket_request_payload, index, 8);
PICKET_AT(picket_request_payload, length, 10);
PICKET_AT(picket_request_payload, text, 16);
PICKET_ASSERT(sizeof(picket_call_payload) == 24);
PICKET_AT(picket_call_payload, bytes, 0);
PICKET_AT(picket_call_payload, sequence, 8);
PICKET_AT(picket_call_payload, microbatch, 16);
PICKET_ASSERT(sizeof(picket_host_record) == 128);
PICKET_AT(picket_host_record, commit, 0);
PICKET_AT(picket_host_record, time_ns, 8);
PICKET_AT(picket_host_record, type, 16);
PICKET_AT(picket_host_record, phase, 18);
PICKET_AT(picket_host_record, thread, 20);
PICKET_AT(picket_host_record, payload, 24);
PICKET_ASSERT(sizeof(picket_phase_entry) == 128);
PICKET_AT(picket_phase_entry, kind, 0);
PICKET_AT(picket_phase_entry, layer, 4);
PICKET_AT(picket_phase_entry, bytes, 8);
PICKET_AT(picket_phase_entry, name, 16);
PICKET_AT(picket_phase_entry, op, 56);
PICKET_AT(picket_phase_entry, group, 80);
PICKET_AT(picket_phase_entry, weight, 120);
PICKET_ASSERT(sizeof(picket_clock_sample) == 64);
PICKET_AT(picket_clock_sample, commit, 0);
PICKET_AT(picket_clock_sample, gpu_ns, 8);
PICKET_AT(picket_clock_sample, monotonic_ns, 16);
PICKET_AT(picket_clock_sample, realtime_ns, 24);
PICKET_AT(picket_clock_sample, uncertainty_ns, 32);
PICKET_AT(picket_clock_sample, fence_claimed, 40);

#if defined(__cplusplus)
}
#endif
#endif /* PICKET_RING_H_ */
