// The library on a real GPU: eager and captured fences on two streams, exact accounts, a hang seen while it lasts,
// durations against CUDA events, clock samples. Says so and ends well where there is no GPU.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "../../native/include/picket_fence.h"
#include "../../native/ring/atomics.h"
#include "../../native/ring/ring_reader.h"
#include "cuda_test.h"
#include "gpu_rig.h"

using namespace picket;
using check::Rig, check::Seen, check::drain;

namespace {

const check::Cuda* cuda;
bool brief;  // under a sanitizer

// A fork and a join: attention, then mlp beside a second attention on another stream.
void* two_stream_graph(Rig& rig, void* first, void* second) {
  return cuda->capture(first, [&] {
    rig.begin(rig.attention, first);
    cuda->spin(first, 2000);
    rig.end(rig.attention, first);
    cuda->fork(first, second);
    rig.begin(rig.mlp, first);
    rig.begin(rig.attention, second);
    cuda->spin(first, 3000);
    cuda->spin(second, 4000);
    rig.end(rig.attention, second);
    rig.end(rig.mlp, first);
    cuda->fork(second, first);
    cuda->spin(first, 1000);
  });
}

uint64_t median(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

}  // namespace

TEST(eager_fences_of_two_threads_and_streams) {
  Rig rig(PICKET_FORM_SIDE, 1 << 18);
  const int rounds = brief ? 50 : 20000;
  std::vector<std::thread> threads;
  void* streams[] = {cuda->stream(), cuda->stream()};
  for (uint32_t phase : {rig.attention, rig.mlp})
    threads.emplace_back([&rig, phase, rounds, stream = streams[phase]] {
      // No context is current in this thread: the library brings its own.
      for (int i = 0; i < rounds; i++) rig.begin(phase, stream), rig.end(phase, stream);
    });
  for (auto& thread : threads) thread.join();
  for (void* stream : streams) cuda->wait(stream);
  Seen seen;
  while (drain(rig, seen)) {
  }
  CHECK_EQ(seen.count, uint64_t(4 * rounds));
  CHECK_EQ(rig.control()->launches, uint64_t(4 * rounds));
  CHECK_EQ(rig.reader->fences_lost(), 0u);
}

TEST(captured_fences_replay_exactly) {
  for (int form : {PICKET_FORM_SIDE, PICKET_FORM_IN_LINE}) {
    Rig rig(form);
    void *first = cuda->stream(), *second = cuda->stream();
    void* graph = two_stream_graph(rig, first, second);
    CHECK_EQ(rig.control()->graph_records, 6u);
    // Side: attention's end and mlp's begin share a node; in line the same two do.
    CHECK_EQ(rig.control()->graph_nodes, 5u);
    const int replays = brief ? 20 : 20000;
    std::atomic<bool> done{false};
    std::thread driver([&] {
      cuda->make_current();
      for (int i = 0; i < replays; i++) CHECK_EQ(cuda->graph_launch(graph, first), 0);
      cuda->wait(first);
      done = true;
    });
    Seen seen;
    for (bool ended = false;;) {
      if (!drain(rig, seen) && ended) break;
      ended = done;
    }
    driver.join();
    CHECK_EQ(seen.count + rig.reader->fences_lost(), uint64_t(replays) * 6);
    CHECK_EQ(rig.reader->fences_lost(), 0u);
    std::printf(
        "  form %d: %d replays, %llu records, attention median %llu ns (2000 and 4000 asked), mlp %llu (3000)\n", form,
        replays, (unsigned long long)seen.count, (unsigned long long)median(seen.durations[rig.attention]),
        (unsigned long long)median(seen.durations[rig.mlp]));
    // A side fence may stamp up to a microsecond late at either end.
    CHECK(brief || std::llabs(int64_t(median(seen.durations[rig.mlp])) - 3000) < 3000);
  }
}

TEST(stalled_reader_loses_only_by_count) {
  Rig rig(PICKET_FORM_SIDE, 1024);
  void *first = cuda->stream(), *second = cuda->stream();
  void* graph = two_stream_graph(rig, first, second);
  // A reader that comes back after ten seconds.
  const uint64_t stalled_ns = brief ? 0 : 10000000000;
  uint64_t replays = 0;
  for (uint64_t start = monotonic_ns(); replays < 300 || monotonic_ns() - start < stalled_ns; replays++) {
    CHECK_EQ(cuda->graph_launch(graph, first), 0);
    if (replays % 256 == 0) cuda->wait(first);
  }
  cuda->wait(first);
  Seen seen;
  while (drain(rig, seen)) {
  }
  CHECK_EQ(seen.count, 1024u);
  CHECK_EQ(seen.count + rig.reader->fences_lost(), replays * 6);
  std::printf("  %llu replays, %llu records read, %llu lost\n", (unsigned long long)replays,
              (unsigned long long)seen.count, (unsigned long long)rig.reader->fences_lost());
  // Replays after closing still find their memory.
  picket_close(rig.handle);
  CHECK_EQ(cuda->graph_launch(graph, first), 0);
  cuda->wait(first);
}

TEST(begun_phase_is_seen_while_it_hangs) {
  if (brief) return;
  for (bool captured : {false, true}) {
    Rig rig;
    void* stream = cuda->stream();
    auto work = [&] {
      rig.begin(rig.mlp, stream);
      cuda->spin(stream, 2000000000);
      rig.end(rig.mlp, stream);
    };
    void* graph = captured ? cuda->capture(stream, work) : nullptr;
    uint64_t start = monotonic_ns();
    if (captured)
      CHECK_EQ(cuda->graph_launch(graph, stream), 0);
    else
      work();
    Seen seen;
    CHECK(check::eventually([&] { return drain(rig, seen); }));
    uint64_t after = monotonic_ns() - start;
    CHECK(cuda->base->stream_query(stream) != 0);
    CHECK_EQ(seen.count, 1u);
    CHECK(after < 500000000);
    cuda->wait(stream);
    while (drain(rig, seen)) {
    }
    CHECK_EQ(seen.count, 2u);
    std::printf("  captured %d: begin seen %.3f ms after launch; duration %.6f s\n", captured, double(after) / 1e6,
                double(seen.durations[rig.mlp][0]) / 1e9);
  }
}

// Events and fences bracket the same kernel in launches of their own, so that neither is inside the other's span.
TEST(durations_agree_with_cuda_events) {
  if (brief) return;
  Rig rig;
  void *stream = cuda->stream(), *before = cuda->event(true), *after = cuda->event(true);
  for (uint64_t asked : {20000u, 200000u, 2000000u}) {
    std::vector<uint64_t> events;
    Seen eager, captured;
    void* graph = cuda->capture(stream, [&] {
      cuda->spin(stream, 10000);
      rig.begin(rig.mlp, stream);
      cuda->spin(stream, asked);
      rig.end(rig.mlp, stream);
      cuda->spin(stream, 10000);
    });
    for (int i = 0; i < 50; i++) {
      cuda->spin(stream, 100000);  // so that the host is ahead of the GPU
      CHECK_EQ(cuda->event_record(before, stream), 0);
      cuda->spin(stream, asked);
      CHECK_EQ(cuda->event_record(after, stream), 0);
      CHECK_EQ(cuda->event_synchronize(after), 0);
      float ms = 0;
      CHECK_EQ(cuda->event_elapsed(&ms, before, after), 0);
      events.push_back(uint64_t(double(ms) * 1e6));
    }
    for (int i = 0; i < 50; i++) {
      cuda->spin(stream, 100000);
      rig.begin(rig.mlp, stream);
      cuda->spin(stream, asked);
      rig.end(rig.mlp, stream);
      cuda->wait(stream);
    }
    while (drain(rig, eager)) {
    }
    for (int i = 0; i < 50; i++) {
      CHECK_EQ(cuda->graph_launch(graph, stream), 0);
      cuda->wait(stream);
    }
    while (drain(rig, captured)) {
    }
    auto event = int64_t(median(events)), fence = int64_t(median(eager.durations[rig.mlp])),
         side = int64_t(median(captured.durations[rig.mlp]));
    std::printf("  spin %llu ns: CUDA events %lld, fences eager %lld, side in a graph %lld\n",
                (unsigned long long)asked, (long long)event, (long long)fence, (long long)side);
    int64_t allowed = std::max<int64_t>(1000, int64_t(asked / 100));
    CHECK(std::llabs(fence - event) <= allowed);
    CHECK(std::llabs(side - event) <= std::max<int64_t>(allowed, 3000));
  }
}

TEST(costs_are_measured_and_borders_sampled) {
  Rig rig(PICKET_FORM_AUTO, 1 << 16, 0.005);
  void* stream = cuda->stream();
  const int layers = 200;
  auto pass = [&] {
    rig.begin(rig.mlp, stream);
    for (int i = 0; i < layers; i++) {
      rig.begin(rig.attention, stream);
      cuda->spin(stream, 4000);
      rig.end(rig.attention, stream);
    }
    rig.end(rig.mlp, stream);
  };
  for (int i = 0; i < 3; i++) pass(), cuda->wait(stream);
  void* graph = cuda->capture(stream, pass);
  CHECK_EQ(cuda->graph_launch(graph, stream), 0);
  cuda->wait(stream);
  const picket_control* control = rig.control();
  char text[512];
  CHECK_EQ(picket_overhead(rig.handle, text, sizeof(text)), PICKET_OK);
  std::printf("  side %.0f ns, in line %.0f ns, launched %.0f ns; %s\n", double(control->fence_side_ns),
              double(control->fence_in_line_ns), double(control->fence_eager_ns), text);
  CHECK(brief || (control->fence_side_ns > 0 && control->fence_side_ns < 5000));
  CHECK(brief || (control->fence_in_line_ns > 0 && control->fence_in_line_ns < 10000));
  CHECK_EQ(control->plan_borders, 2u * layers + 2);
  CHECK_EQ(control->graph_records, control->plan_kept);
  CHECK(control->overhead_predicted <= control->overhead_budget || control->plan_kept == 4);
}

TEST(steps_and_calls_are_linked_on_the_stream) {
  Rig rig;
  void* stream = cuda->stream();
  picket_step_payload step = picket_step_unknown();
  step.step = 12;
  picket_call_payload call = {4096, 5, -1, 0};
  CHECK_EQ(picket_step(rig.handle, &step, nullptr, stream), PICKET_OK);
  CHECK_EQ(picket_begin_call(rig.handle, rig.mlp, stream, &call), PICKET_OK);
  cuda->wait(stream);
  uint64_t times[8];
  uint32_t ids[8];
  CHECK_EQ(rig.reader->drain_fences(times, ids, 8, 1, false).count, 3u);
  CHECK_EQ(ids[0] >> PICKET_FENCE_TYPE_SHIFT, uint32_t(PICKET_FENCE_LINK));
  CHECK_EQ(ids[1] & 0xffff, 1u);
  CHECK_EQ(times[1], times[2]);
  CHECK_EQ(cuda->begin_capture(stream, 0), 0);
  CHECK_EQ(picket_begin_call(rig.handle, rig.mlp, stream, &call), PICKET_ERR_ARGUMENT);
  CHECK_EQ(picket_step(rig.handle, &step, nullptr, stream), PICKET_OK);
  void* graph;
  CHECK_EQ(cuda->end_capture(stream, &graph), 0);
}

TEST(broken_capture_is_left_alone) {
  if (brief) return;
  Rig rig;
  void* stream = cuda->stream();
  CHECK_EQ(cuda->begin_capture(stream, 0), 0);
  CHECK(cuda->base->stream_synchronize(stream) != 0);  // forbidden: the capture is invalid from here
  CHECK_EQ(picket_begin(rig.handle, rig.mlp, stream), PICKET_OFF);
  void* graph;
  CHECK(cuda->end_capture(stream, &graph) != 0);
  rig.begin(rig.mlp, stream);
  cuda->wait(stream);
}

TEST(clock_samples_bracket_the_gpu) {
  Rig rig;
  const uint64_t wanted = brief ? 3 : 60;
  std::vector<picket_clock_sample> samples(wanted + 64);
  CHECK(check::eventually([&] { return load_acquire(&rig.control()->clock_written) >= wanted; }));
  uint32_t count = rig.reader->drain_clocks(samples.data(), uint32_t(samples.size()));
  std::vector<uint64_t> errors;
  for (uint32_t i = 0; i < count; i++) {
    errors.push_back(samples[i].uncertainty_ns);
    if (i) CHECK(samples[i].gpu_ns > samples[i - 1].gpu_ns);
  }
  const auto &a = samples[0], &b = samples[count - 1];
  double drift = double(int64_t(b.gpu_ns - a.gpu_ns) - int64_t(b.monotonic_ns - a.monotonic_ns));
  double worst = 0;
  for (uint32_t i = 0; i < count; i++) {
    double share = double(samples[i].monotonic_ns - a.monotonic_ns) / double(b.monotonic_ns - a.monotonic_ns);
    double off = double(int64_t(samples[i].gpu_ns - a.gpu_ns) - int64_t(samples[i].monotonic_ns - a.monotonic_ns)) -
                 drift * share;
    worst = std::max(worst, std::fabs(off));
  }
  std::printf(
      "  %u samples: uncertainty median %llu ns, largest %llu; drift %.0f ns in %.2f s; off the line at most %.0f ns\n",
      count, (unsigned long long)median(errors), (unsigned long long)*std::max_element(errors.begin(), errors.end()),
      drift, double(b.monotonic_ns - a.monotonic_ns) / 1e9, worst);
  CHECK(median(errors) < 10000);
}

int main(int count, char** arguments) {
  brief = count > 1 && strcmp(arguments[1], "--brief") == 0;
  cuda = check::Cuda::open();
  if (!cuda) return std::printf("skipped: no CUDA GPU\n"), 0;
  return check::run_all(count > 1 && !brief ? arguments[1] : "");
}
