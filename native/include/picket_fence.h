/* Picket fences: stamps phase borders of an engine into a shared-memory segment (picket_ring.h). C ABI of
 * libpicket_fence.so.
 *
 * Every function may be called from any thread and never breaks its caller: it returns a code, keeps a message for
 * picket_error(), and a failure costs records, not the step. All accept a NULL handle and then return PICKET_OFF, so a
 * caller need not ask whether picket is on. PICKET_DISABLE=1 in the environment makes picket_open give NULL. A child
 * after fork() is off until it opens its own segment.
 *
 * With a GPU a border is a one-thread kernel that writes %globaltimer. On a stream that is being captured it becomes a
 * node of the graph: in line, or a side node, which depends on what the stream's next kernel would depend on and on the
 * stream's previous fence, and on which nothing waits; by default what shows more within the overhead budget, and in
 * line beside NCCL's nodes. Borders between which no work was captured share one node.
 *
 * Overhead budget: picket_open measures what a fence costs on this GPU (some 40 ms). The first passes through an
 * outermost phase (a forward pass; phases of kind step do not count) and one after each capture are held back on the
 * GPU until the host is through, at most 50 ms, so that their length is that of the work and not of the launching. From
 * then on, in captures and outside, phases inside it are sampled so that the predicted cost stays under the budget: of
 * so many occurrences one is stamped, under a phase entry that says how many it stands for. docs/overhead.md tells more.
 *
 * Only libcuda.so.1 is needed (driver of CUDA 11.8 or later), found by dlopen. Without a GPU the host clock is stamped.
 */
#ifndef PICKET_FENCE_H_
#define PICKET_FENCE_H_

#include "picket_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PICKET_OK 0
#define PICKET_OFF 1 /* nothing recorded: disabled, closed, in a forked child, or the stream's capture is broken */
#define PICKET_ERR_ARGUMENT (-1)
#define PICKET_ERR_SYSTEM (-2) /* file, memory, thread */
#define PICKET_ERR_CUDA (-3)
#define PICKET_ERR_FULL (-4) /* phase table or lanes are used up */

#define PICKET_DEVICE_NONE (-1)    /* host clock */
#define PICKET_DEVICE_CURRENT (-2) /* the device of the calling thread's CUDA context; without one, the host clock */

#define PICKET_FORM_AUTO 0    /* in line in graphs with NCCL's nodes, beside the stream in others */
#define PICKET_FORM_SIDE 1    /* beside the captured stream: cheapest, except beside NCCL's nodes */
#define PICKET_FORM_IN_LINE 2 /* in the captured stream */

typedef struct picket_handle picket_t;

/* Zero is the default of every field but device. */
typedef struct picket_options {
  uint32_t size;                                          /* sizeof(picket_options) */
  int32_t device;                                         /* CUDA ordinal as this process counts, or PICKET_DEVICE_* */
  const char* directory;                                  /* NULL: $PICKET_DIR, else /dev/shm */
  const char* attributes;                                 /* JSON object about job, run and rank; at most 2047 bytes */
  uint32_t fence_capacity, host_capacity, phase_capacity; /* powers of two; 0: 131072, 4096, 4096 */
  uint32_t clock_period_ms;                               /* 0: 1000 */
  int32_t form;                                           /* PICKET_FORM_* of captured fences */
  double overhead_budget; /* share of a pass that fences may cost; 0: 0.005; negative: stamp every border */
} picket_options;

typedef struct picket_phase {
  const char* name;  /* at most 39 bytes */
  int32_t kind;      /* PICKET_KIND_* */
  int32_t layer;     /* -1: none */
  const char* op;    /* collective operation (at most 23 bytes) or NULL */
  const char* group; /* communicator (at most 39 bytes) or NULL */
  int64_t bytes;     /* message size if every call has the same, else -1 */
} picket_phase;

/* Creates the segment and starts the clock thread. *out is NULL unless the result is PICKET_OK. */
int picket_open(const picket_options* options, picket_t** out);

/* Ends recording and marks the segment closed. Later calls return PICKET_OFF. The memory stays
 * mapped until the process ends, since other threads may be inside a call and captured graphs may replay fences. */
int picket_close(picket_t* picket);

/* Gives the id (0 .. 65535) of a phase; the same description always has the same id. */
int picket_phase_register(picket_t* picket, const picket_phase* phase, uint32_t* id);

/* The phase begins or ends on the stream (CUstream or cudaStream_t). Without a GPU: now, on the lane of that pointer,
 * or of the calling thread where it is NULL. Pairs nest within a stream. */
int picket_begin(picket_t* picket, uint32_t phase, void* stream);
int picket_end(picket_t* picket, uint32_t phase, void* stream);

/* picket_begin with facts of this one call. Not while capturing: a replay would repeat them (PICKET_ERR_ARGUMENT);
 * register a phase with constant bytes there. */
int picket_begin_call(picket_t* picket, uint32_t phase, void* stream, const picket_call_payload* call);

/* The stream's following work belongs to this step. `requests` may be NULL when step->requests is 0. On a capturing
 * stream only the host ring hears of it. Start from picket_step_unknown(). */
int picket_step(picket_t* picket, const picket_step_payload* step, const char* const* requests, void* stream);
picket_step_payload picket_step_unknown(void);

/* A phase of the calling host thread (data loading, checkpoint) begins (PICKET_HOST_BEGIN) or ends (PICKET_HOST_END).
 * `call` may be NULL. */
int picket_mark(picket_t* picket, uint32_t phase, int type, const picket_call_payload* call);

/* What was chosen last to stay within the overhead budget, and why, as a sentence; its numbers are in the control
 * block. At most size - 1 bytes of text and a NUL. */
int picket_overhead(picket_t* picket, char* text, size_t size);

/* Form of fences captured from now on. */
int picket_form(picket_t* picket, int form);

/* The segment's control block (NULL for a NULL handle) and file, for tests and reports. */
const picket_control* picket_control_of(const picket_t* picket);
const char* picket_path(const picket_t* picket);

/* Message of the calling thread's last failure, never NULL. */
const char* picket_error(void);

#ifdef __cplusplus
}
#endif
#endif /* PICKET_FENCE_H_ */
