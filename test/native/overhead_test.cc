// What fences cost and what is done about it, against the stand-in driver: edges that overlap on Hopper, the form that
// is chosen, the measurement, and the borders that are left out.
#include <cmath>

#include "../../native/fence/cuda_driver.h"
#include "capture_rig.h"

using namespace picket;
using namespace check;

namespace {

constexpr double kHalfPercent = 0.005;

// A GPU on which a fence can be launched early.
struct Hopper {
  Hopper() { driver().capability = 9; }
  ~Hopper() { driver().capability = 8; }
};

struct Model {
  Rig& rig;
  uint32_t forward, all_reduce;
  int layers;

  Model(Rig& rig, int layers) : rig(rig), layers(layers) {
    forward = rig.phase("forward");
    all_reduce = 0;
  }
  void with_collectives() { all_reduce = rig.phase("all_reduce", PICKET_KIND_COMM); }
  // Per layer: attention (two kernels), its all-reduce where asked for, mlp (three kernels).
  void pass() {
    rig.begin(forward);
    for (int i = 0; i < layers; i++) {
      rig.begin(rig.attention);
      kernel(kStream), kernel(kStream);
      if (all_reduce) rig.begin(all_reduce), kernel(kStream), rig.end(all_reduce);
      rig.end(rig.attention);
      rig.begin(rig.mlp);
      kernel(kStream), kernel(kStream), kernel(kStream);
      rig.end(rig.mlp);
    }
    rig.end(forward);
  }
  void capture() {
    begin_capture(kStream);
    pass();
  }
};

// Records and the occurrences that they stand for.
struct Written {
  uint32_t records = 0;
  double stood_for = 0;
  long occurrences() const { return std::lround(stood_for); }
};
// By phase name, but for the first `skipped` records.
std::map<std::string, Written> written(Rig& rig, size_t skipped = 0) {
  std::string code, error;
  auto segment = Segment::open(picket_path(rig.handle), false, &code, &error);
  std::map<std::string, Written> all;
  std::vector<uint32_t> ids = rig.drain();
  for (size_t i = skipped; i < ids.size(); i++) {
    const picket_phase_entry& entry = segment->phases()[ids[i] & 0xffff];
    Written& one = all[entry.name];
    one.records++;
    one.stood_for += entry.weight == 0 ? 1 : double(entry.weight);
  }
  return all;
}

std::string reason(Rig& rig) {
  char text[1024];
  CHECK_EQ(picket_overhead(rig.handle, text, sizeof(text)), PICKET_OK);
  return text;
}

}  // namespace

TEST(side_fences_are_launched_before_their_kernel_is_through) {
  Hopper hopper;
  Rig rig;
  begin_capture(kStream);
  rig.begin(rig.attention);
  kernel(kStream);
  rig.end(rig.attention);
  kernel(kStream);
  rig.end(rig.mlp);
  CHECK_EQ(graph_text(), "0:f1() 1:k() 2:f1(1~ 0~) 3:k(1) 4:f1(3~ 2~)");
  // In a memory domain of their own, so that no kernel's ordering waits for their writes.
  CHECK_EQ(driver().graph[2].domain, kCuMemSyncDomainRemote);
  CHECK_EQ(driver().graph[3].domain, 0);
}

TEST(fences_are_not_taken_for_nccl) {
  Hopper hopper;
  Rig rig(PICKET_FORM_AUTO);
  uint32_t all_reduce = rig.phase("all_reduce", PICKET_KIND_COMM);
  begin_capture(kStream);
  rig.end(all_reduce), kernel(kStream);
  begin_capture(kStream);
  for (int i = 0; i < 2; i++) rig.begin(rig.mlp), kernel(kStream), rig.end(rig.mlp), kernel(kStream);
  CHECK_EQ(graph_text(), "0:f1() 1:k() 2:f1(1~ 0~) 3:k(1) 4:f1(3~ 2~) 5:k(3) 6:f1(5~ 4~) 7:k(5)");
}

TEST(what_begins_in_line_begins_after_the_fence) {
  for (double budget : {kNoBudget, 1.0}) {
    Rig rig(PICKET_FORM_IN_LINE, budget);
    begin_capture(kStream);
    kernel(kStream);
    rig.begin(rig.attention), kernel(kStream), rig.end(rig.attention);
    rig.begin(rig.mlp), rig.end(rig.mlp), kernel(kStream);
    replay();
    std::vector<uint64_t> times = rig.times();
    CHECK_EQ(times.size(), size_t(4));
    // A fence takes 700 ns, which was measured where there is a budget.
    uint64_t lead = budget > 0 ? fake::kInLineFence : 0;
    CHECK_EQ(times[1] - times[0], fake::kKernel + fake::kInLineFence - lead);
    CHECK_EQ(times[2] - times[1], lead);
    CHECK_EQ(times[3], times[2]);
  }
}

TEST(in_line_fences_overlap_with_both_neighbours) {
  Hopper hopper;
  Rig rig(PICKET_FORM_IN_LINE);
  begin_capture(kStream);
  kernel(kStream);
  rig.begin(rig.attention);
  kernel(kStream);
  rig.end(rig.attention);
  kernel(kStream);
  driver().graph.back().type = 7;
  rig.begin(rig.mlp);
  // The event record 4 is no kernel and waits for all of the fence.
  CHECK_EQ(graph_text(), "0:k() 1:f1(0~) 2:k(1~) 3:f1(2~) 4:k(3) 5:f1(4)");
}

TEST(refused_edges_stay_plain) {
  Hopper hopper;
  Rig rig;
  begin_capture(kStream);
  kernel(kStream);
  driver().failing = "cuGraphAddDependencies";
  rig.begin(rig.attention);
  CHECK_EQ(graph_text(), "0:k() 1:f1(0)");
  CHECK_EQ(picket_control_of(rig.handle)->errors, 0u);
}

TEST(launched_fences_overlap_until_the_driver_refuses) {
  Hopper hopper;
  Rig rig;
  int early = driver().early;
  rig.begin(rig.attention);
  CHECK_EQ(driver().early - early, 1);
  driver().failing = "cuLaunchKernelEx";
  rig.end(rig.attention);
  driver().failing.clear();
  rig.begin(rig.mlp);
  CHECK_EQ(driver().early - early, 1);
  CHECK_EQ(rig.drain().size(), size_t(3));
}

TEST(fences_start_in_line_where_collectives_may_come) {
  Rig rig(PICKET_FORM_AUTO);
  uint32_t all_reduce = rig.phase("all_reduce", PICKET_KIND_COMM);
  begin_capture(kStream);
  kernel(kStream);
  rig.begin(all_reduce);
  kernel(kStream);
  driver().graph.back().domain = 1;
  rig.end(all_reduce);
  CHECK_EQ(graph_text(), "0:k() 1:f1(0) 2:k(1) 3:f1(2)");
}

TEST(graphs_whose_collectives_are_plain_kernels_get_side_nodes) {
  Rig rig(PICKET_FORM_AUTO);
  uint32_t all_reduce = rig.phase("all_reduce", PICKET_KIND_COMM);
  begin_capture(kStream);
  rig.begin(all_reduce);
  kernel(kStream);
  rig.end(all_reduce);
  kernel(kStream);
  rig.begin(rig.mlp);
  kernel(kStream);
  CHECK_EQ(graph_text(), "0:f1() 1:k(0) 2:f1(1) 3:k(1) 4:f1(3 2) 5:k(3)");
}

TEST(graphs_with_nccl_are_known_without_being_told) {
  Rig rig(PICKET_FORM_AUTO);
  begin_capture(kStream);
  kernel(kStream);
  rig.begin(rig.attention);
  kernel(kStream);
  driver().graph.back().domain = 1;
  rig.end(rig.attention);
  kernel(kStream);
  CHECK_EQ(graph_text(), "0:k() 1:f1(0) 2:k(0) 3:f1(2) 4:k(3)");
  begin_capture(kStream);
  kernel(kStream);
  rig.begin(rig.mlp);
  kernel(kStream);
  CHECK_EQ(graph_text(), "0:k() 1:f1(0) 2:k(1)");
}

TEST(graphs_without_collectives_get_side_nodes) {
  Rig rig(PICKET_FORM_AUTO);
  begin_capture(kStream);
  rig.begin(rig.mlp);
  kernel(kStream);
  CHECK_EQ(graph_text(), "0:f1() 1:k()");
}

TEST(costs_are_measured_when_the_segment_opens) {
  Rig rig(PICKET_FORM_AUTO, kHalfPercent);
  const picket_control* control = picket_control_of(rig.handle);
  CHECK_EQ(std::lround(control->fence_side_ns), long(fake::kSideFence));
  CHECK_EQ(std::lround(control->fence_in_line_ns), long(fake::kInLineFence));
  CHECK_EQ(std::lround(control->fence_eager_ns), long(fake::kLaunchedFence));
  CHECK_EQ(control->graph_nodes, 0u);
  CHECK_EQ(rig.drain().size(), size_t(0));
}

TEST(costs_are_right_when_the_gpu_changes_speed_meanwhile) {
  driver().slower_after = 26;  // between the first bare graph that counts and those with fences
  Rig rig(PICKET_FORM_AUTO, kHalfPercent);
  driver().slower_after = -1;
  const picket_control* control = picket_control_of(rig.handle);
  CHECK_EQ(std::lround(control->fence_side_ns), long(fake::kSideFence));
  CHECK_EQ(std::lround(control->fence_in_line_ns), long(fake::kInLineFence));
}

TEST(what_cannot_be_measured_is_stamped_in_full) {
  driver().failing = "cuStreamBeginCapture";
  Rig rig(PICKET_FORM_AUTO, kHalfPercent);
  driver().failing.clear();
  Model model(rig, 8);
  for (int i = 0; i < 6; i++) model.pass();
  CHECK_EQ(written(rig)["mlp"].records, 6u * 2 * 8);
  CHECK_EQ(picket_control_of(rig.handle)->fence_side_ns, 0.0f);
}

TEST(first_passes_are_held_back_to_be_timed) {
  Rig rig(PICKET_FORM_AUTO, kHalfPercent);
  Model model(rig, 8);
  int before = driver().gates;
  for (int i = 0; i < 6; i++) model.pass();
  CHECK_EQ(driver().gates - before, 3);
  model.capture();
  end_capture();
  model.pass(), model.pass();
  CHECK_EQ(driver().gates - before, 4);
}

TEST(launched_borders_are_sampled_when_they_cost_too_much) {
  Rig rig(PICKET_FORM_AUTO, kHalfPercent);
  Model model(rig, 36);
  for (int i = 0; i < 3; i++) model.pass();
  size_t before = rig.drain().size();
  model.pass();
  auto after = written(rig, before);
  // A pass takes 36 * 5 * 4 us and its 146 fences 1 us each, seen as 865 us; 0.5 % of that are 4 borders. Every phase
  // is sampled as thinly as it can be.
  CHECK_EQ(after["forward"].records, 2u);
  CHECK_EQ(after["attention"].records, 2u);
  CHECK_EQ(after["mlp"].records, 2u);
  CHECK_EQ(after["attention"].occurrences(), 72);
  CHECK(reason(rig).find("forward: launched, 6 of 146 borders") == 0);
}

TEST(captured_borders_are_sampled_from_the_deepest_up) {
  Rig rig(PICKET_FORM_SIDE, 0.0105);
  Model model(rig, 36);
  for (int i = 0; i < 3; i++) model.pass();
  size_t before = rig.drain().size();
  model.capture();
  replay();
  auto after = written(rig, before);
  // 865 us seen: 1.05 % are 45 side nodes of twice 100 ns, the two of the pass itself among them.
  CHECK_EQ(after["attention"].records + after["mlp"].records, 14u + 24u);
  CHECK_EQ(after["mlp"].occurrences(), 72);
  CHECK_EQ(after["attention"].occurrences(), 72);
  const picket_control* control = picket_control_of(rig.handle);
  CHECK_EQ(control->plan_borders, 146u);
  CHECK(control->overhead_predicted > 0 && control->overhead_predicted <= control->overhead_budget);
  CHECK_EQ(control->plan_form, PICKET_FORM_SIDE);
}

TEST(form_is_the_one_that_shows_more_within_the_budget) {
  // 10 % of 865 us are 41 fences in line of thrice 700 ns, and beside the stream all of 146 or 28, at twice 100 or 1500 ns.
  for (auto [side_ns, form] : {std::pair(100, PICKET_FORM_SIDE), std::pair(1500, PICKET_FORM_IN_LINE)}) {
    driver().side_fence_ns = side_ns;
    Rig rig(PICKET_FORM_AUTO, 0.1);
    Model model(rig, 36);
    for (int i = 0; i < 3; i++) model.pass();
    const picket_control* control = picket_control_of(rig.handle);
    for (int i = 0; i < 2; i++) {
      model.capture();
      CHECK_EQ(control->plan_form, form);
      CHECK(control->overhead_predicted <= 0.1f);
      CHECK_EQ(driver().graph[0].side, form == PICKET_FORM_SIDE);
      CHECK_EQ(driver().graph.back().side, form == PICKET_FORM_SIDE);
    }
  }
  driver().side_fence_ns = fake::kSideFence;
}

TEST(borders_that_share_a_fence_count_as_one_once_that_is_known) {
  Rig rig(PICKET_FORM_SIDE, 0.0181);
  Model model(rig, 36);
  for (int i = 0; i < 3; i++) model.pass();
  const picket_control* control = picket_control_of(rig.handle);
  // Room for 78 fences of twice 100 ns; where a phase ends the next one begins, so that 73 fences write all
  // of the 146 borders.
  model.capture();
  CHECK(control->plan_kept <= 78u);
  uint64_t nodes = control->graph_nodes;
  model.capture();
  CHECK_EQ(control->plan_kept, 146u);
  CHECK_EQ(control->graph_nodes - nodes, 73u);
}

TEST(side_fences_beside_collectives_count_six_times) {
  Rig rig(PICKET_FORM_SIDE, kHalfPercent);
  Model model(rig, 36);
  model.with_collectives();
  for (int i = 0; i < 4; i++) model.pass();
  model.capture();
  const picket_control* control = picket_control_of(rig.handle);
  // Within rounding of records to whole borders.
  CHECK(std::abs(control->overhead_predicted * control->pass_us * 1000 - control->plan_kept * 600.0) < 600);
}

TEST(collectives_inside_a_stamped_phase_are_stamped) {
  Rig rig(PICKET_FORM_SIDE, kHalfPercent);
  Model model(rig, 36);
  model.with_collectives();
  for (int i = 0; i < 4; i++) model.pass();
  size_t before = rig.drain().size();
  model.pass();
  auto after = written(rig, before);
  CHECK(after["attention"].records < 72u);
  CHECK_EQ(after["all_reduce"].records, after["attention"].records);
  CHECK_EQ(after["all_reduce"].occurrences(), after["attention"].occurrences());
}

TEST(without_a_pass_before_all_is_captured) {
  Rig rig(PICKET_FORM_AUTO, kHalfPercent);
  Model model(rig, 36);
  model.capture();
  CHECK_EQ(picket_control_of(rig.handle)->graph_records, 146u);
  CHECK(reason(rig).find("all borders") != std::string::npos);
}

TEST(without_a_budget_nothing_is_held_back_or_left_out) {
  Rig rig(PICKET_FORM_AUTO, kNoBudget);
  Model model(rig, 36);
  int before = driver().gates;
  for (int i = 0; i < 5; i++) model.pass();
  CHECK_EQ(driver().gates, before);
  CHECK_EQ(rig.drain().size(), size_t(5 * 146));
}

MAIN()
