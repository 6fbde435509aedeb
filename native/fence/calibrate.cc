// What a fence costs on this GPU: the same chain of kernels with and without fences, as graphs and launched.
#include <algorithm>
#include <array>

#include "gpu.h"

namespace picket {
namespace {

constexpr int kFences = 48, kKernelsBetween = 3, kRuns = 7;
constexpr double kLeastNs = 500.0 / kFences;  // the clock of events does not tell less
constexpr int kWarmUps = 24;  // an idle GPU's clock rises within some 10 ms
constexpr uint64_t kKernelNs = 4000;
constexpr unsigned kThreads = 256;
constexpr int kBare = -1, kEager = -2;

}  // namespace

// The chain on stream_, which may be under capture; `form` is kBare, kEager or PICKET_FORM_*.
CuResult Gpu::put_chain(int form) {
  const CudaDriver& d = driver();
  uint64_t duration = kKernelNs;
  void* parameters[] = {&duration};
  CuResult result = 0;
  for (int i = 0; result == 0 && i < kFences * kKernelsBetween; i++) {
    result = d.launch(load_, 2 * processors_, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr);
    if (result != 0 || form == kBare || i % kKernelsBetween != 0) continue;
    uint32_t id = 0;
    Capture capture;
    if (form == kEager) result = launch(stream_, &id, 1);
    if (form == kEager || result != 0) continue;
    result = capture_of(stream_, &capture);
    CuNode node = nullptr;
    if (result == 0) result = add_to_graph(stream_, capture, id, form, &node);
  }
  return result;
}

// Nanoseconds of a graph, or of the chain of that form launched one by one, behind a gate so that the host is ahead of
// the GPU. 0 when the driver refuses.
double Gpu::timed(const TimingEvents& events, CuGraphExec graph, int form) {
  const CudaDriver& d = driver();
  float milliseconds = 0;
  bool ok = (graph || hold(stream_) == 0) && d.event_record(events.begin, stream_) == 0 &&
            (graph ? d.graph_launch(graph, stream_) : put_chain(form)) == 0 && d.event_record(events.end, stream_) == 0;
  let_go();
  ok = d.stream_synchronize(stream_) == 0 && ok && d.event_elapsed(&milliseconds, events.begin, events.end) == 0;
  return ok ? double(milliseconds) * 1e6 : 0;
}

FenceCosts Gpu::measure() {
  Target real = target_;
  picket_control before = *segment_->control();
  target_ = {cursor_ + kScratchCursor, handshake_ + kScratchRing, kScratchRecords - 1, kScratchLog2};
  FenceCosts costs;
  if (!measure(&costs)) costs = FenceCosts();
  target_ = real;
  chains_.clear();
  segment_->control()->graph_nodes = before.graph_nodes;
  segment_->control()->graph_records = before.graph_records;
  return costs;
}

bool Gpu::measure(FenceCosts* costs) {
  const CudaDriver& d = driver();
  TimingEvents events;
  if (d.event_create(&events.begin, 0) != 0 || d.event_create(&events.end, 0) != 0) return false;
  constexpr int kForms[] = {kBare, PICKET_FORM_SIDE, PICKET_FORM_IN_LINE};
  CuGraphExec graphs[3] = {};
  bool ok = true;
  for (int i = 0; ok && i < 3; i++) {
    CuGraph graph = nullptr;
    ok = d.begin_capture(stream_, kCuCaptureModeRelaxed) == 0;
    CuResult put = ok ? put_chain(kForms[i]) : 1;
    ok = ok && d.end_capture(stream_, &graph) == 0 && put == 0 && d.instantiate(&graphs[i], graph, 0) == 0;
    if (graph) d.graph_destroy(graph);
  }
  for (int run = 0; ok && run < kWarmUps; run++) ok = timed(events, graphs[0], kBare) > 0;
  constexpr int kModes = 5;  // the graphs, then launched chains: bare and with fences
  std::array<double, kRuns> times[kModes];
  for (int run = 0; ok && run < kRuns; run++)
    for (int i = 0; ok && i < kModes; i++) {
      times[i][run] = timed(events, i < 3 ? graphs[i] : nullptr, i == 3 ? kBare : kEager);
      ok = times[i][run] > 0;
    }
  for (CuGraphExec graph : graphs)
    if (graph) d.exec_destroy(graph);
  d.event_destroy(events.begin);
  d.event_destroy(events.end);
  if (!ok) return false;
  // Of differences within a run: the GPU goes to another speed for good at times, by 4 %, which is more than all fences.
  auto cost = [&](int fenced, int bare) {
    std::array<double, kRuns> more;
    for (int run = 0; run < kRuns; run++) more[run] = (times[fenced][run] - times[bare][run]) / kFences;
    std::nth_element(more.begin(), more.begin() + kRuns / 2, more.end());
    return std::max(kLeastNs, more[kRuns / 2]);
  };
  *costs = {cost(1, 0), cost(2, 0), cost(4, 3)};
  return true;
}

}  // namespace picket
