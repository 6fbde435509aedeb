// The GPU path against a stand-in driver (run with LD_LIBRARY_PATH on its folder): where fences go in a captured graph,
// which borders share a node, and what happens when the driver refuses. The driver is as old as CUDA 11.8.
#include "capture_rig.h"

using namespace picket;
using namespace check;

TEST(segment_names_the_gpu) {
  Rig rig;
  const picket_control* control = picket_control_of(rig.handle);
  CHECK_EQ(control->clock_source, uint32_t(PICKET_CLOCK_GPU));
  CHECK_EQ(std::string(control->gpu_name), "Fake GPU");
  CHECK_EQ(std::string(control->gpu_uuid), "GPU-abababab-abab-abab-abab-abababababab");
}

TEST(uncaptured_borders_are_launched) {
  Rig rig;
  int before = driver().launches;
  rig.begin(rig.attention);
  rig.end(rig.attention);
  CHECK_EQ(driver().launches - before, 2);
  CHECK_EQ(picket_control_of(rig.handle)->launches, 2u);
  CHECK_EQ(rig.drain().size(), size_t(2));
}

TEST(side_fences_wait_for_the_stream_and_each_other_only) {
  Rig rig;
  begin_capture(kStream);
  rig.begin(rig.attention);
  kernel(kStream);
  rig.end(rig.attention);
  rig.begin(rig.mlp);
  kernel(kStream);
  kernel(kStream);
  rig.end(rig.mlp);
  // The kernels 1, 3, 4 wait for each other alone; the border between the phases is one node of two records.
  CHECK_EQ(graph_text(), "0:f1() 1:k() 2:f2(1 0) 3:k(1) 4:k(3) 5:f1(4 2)");
  CHECK_EQ(picket_control_of(rig.handle)->graph_nodes, 3u);
  CHECK_EQ(picket_control_of(rig.handle)->graph_records, 4u);
  for (int i = 0; i < 100; i++) replay();
  auto ids = rig.drain();
  CHECK_EQ(ids.size(), size_t(400));
  CHECK_EQ(ids[1], ids[397]);
}

TEST(in_line_fences_are_in_the_stream) {
  Rig rig(PICKET_FORM_IN_LINE);
  begin_capture(kStream);
  rig.begin(rig.attention);
  kernel(kStream);
  rig.end(rig.attention);
  rig.begin(rig.mlp);
  kernel(kStream);
  rig.end(rig.mlp);
  CHECK_EQ(graph_text(), "0:f1() 1:k(0) 2:f2(1) 3:k(2) 4:f1(3)");
}

TEST(form_can_change_between_borders) {
  Rig rig;
  begin_capture(kStream);
  kernel(kStream);
  rig.begin(rig.attention);
  CHECK_EQ(picket_form(rig.handle, PICKET_FORM_IN_LINE), PICKET_OK);
  rig.end(rig.attention);
  rig.begin(rig.mlp);
  CHECK_EQ(picket_form(rig.handle, PICKET_FORM_SIDE), PICKET_OK);
  rig.end(rig.mlp);
  CHECK_EQ(graph_text(), "0:k() 1:f1(0) 2:f2(0) 3:f1(2)");
}

TEST(streams_of_one_capture_have_chains_and_lanes_of_their_own) {
  Rig rig;
  begin_capture(kStream);
  kernel(kStream);
  join_capture(kStream, kOther);
  rig.begin(rig.attention);
  rig.begin(rig.mlp, kOther);
  kernel(kStream);
  kernel(kOther);
  rig.end(rig.mlp, kOther);
  rig.end(rig.attention);
  // The other stream's fence does not wait for this stream's kernel, nor the reverse.
  CHECK_EQ(graph_text(), "0:k() 1:f1(0) 2:f1(0) 3:k(0) 4:k(0) 5:f1(4 2) 6:f1(3 1)");
  replay();
  end_capture();
  rig.begin(rig.attention);
  auto ids = rig.drain();
  CHECK_EQ(ids.size(), size_t(5));
  CHECK(lane_of(ids[0]) != lane_of(ids[1]));
  CHECK_EQ(lane_of(ids[0]), lane_of(ids[3]));
  CHECK(lane_of(ids[4]) != lane_of(ids[0]) && lane_of(ids[4]) != lane_of(ids[1]));
}

TEST(node_holds_eight_borders_and_a_new_capture_starts_anew) {
  Rig rig;
  begin_capture(kStream);
  for (int i = 0; i < 5; i++) rig.begin(rig.mlp), rig.end(rig.mlp);
  CHECK_EQ(graph_text(), "0:f8() 1:f2(0)");
  begin_capture(kStream);
  rig.begin(rig.mlp);
  CHECK_EQ(graph_text(), "0:f1()");
}

TEST(steps_under_capture_reach_only_the_host_ring) {
  Rig rig;
  begin_capture(kStream);
  picket_step_payload step = picket_step_unknown();
  picket_call_payload call = {1, 2, 3, 0};
  CHECK_EQ(picket_step(rig.handle, &step, nullptr, kStream), PICKET_OK);
  CHECK_EQ(picket_begin_call(rig.handle, rig.mlp, kStream, &call), PICKET_ERR_ARGUMENT);
  CHECK_EQ(graph_text(), "");
  CHECK_EQ(picket_control_of(rig.handle)->host_claimed, 1u);
}

TEST(broken_capture_is_left_alone) {
  Rig rig;
  begin_capture(kStream);
  symbol<void(void*)>("fake_break_capture")(kStream);
  CHECK_EQ(picket_begin(rig.handle, rig.mlp, kStream), PICKET_OFF);
  CHECK_EQ(graph_text(), "");
}

TEST(refusals_of_the_driver_are_errors_of_that_call_only) {
  Rig rig;
  for (const char* name : {"cuStreamGetCaptureInfo", "cuLaunchKernel"}) {
    driver().failing = name;
    CHECK_EQ(picket_begin(rig.handle, rig.mlp, kStream), PICKET_ERR_CUDA);
    CHECK(strstr(picket_error(), "FAKE_ERROR") != nullptr);
  }
  begin_capture(kStream);
  driver().failing = "cuGraphAddKernelNode";
  CHECK_EQ(picket_begin(rig.handle, rig.mlp, kStream), PICKET_ERR_CUDA);
  driver().failing.clear();
  rig.begin(rig.mlp);
  driver().failing = "cuGraphKernelNodeSetParams";
  CHECK_EQ(picket_end(rig.handle, rig.mlp, kStream), PICKET_ERR_CUDA);
  driver().failing.clear();
  rig.end(rig.mlp);
  CHECK_EQ(picket_control_of(rig.handle)->errors, 4u);
  CHECK(strstr(picket_control_of(rig.handle)->first_error, "asking for a stream's capture") != nullptr);
}

TEST(refused_node_is_not_merged_into) {
  Rig rig;
  begin_capture(kStream);
  rig.begin(rig.mlp);
  kernel(kStream);
  driver().failing = "cuGraphAddKernelNode";
  CHECK_EQ(picket_end(rig.handle, rig.mlp, kStream), PICKET_ERR_CUDA);
  driver().failing.clear();
  rig.begin(rig.attention);
  CHECK_EQ(graph_text(), "0:f1() 1:k() 2:f1(1 0)");
}

TEST(failed_open_says_why_and_leaves_no_file) {
  for (const char* name : {"cuInit", "cuDeviceGet", "cuModuleLoadData", "cuMemHostRegister", "cuLaunchKernel"}) {
    check::Directory directory;
    picket_t* handle = nullptr;
    driver().failing = name;
    CHECK_EQ(open_for(directory, &handle), PICKET_ERR_CUDA);
    driver().failing.clear();
    CHECK(handle == nullptr);
    CHECK(strstr(picket_error(), "FAKE_ERROR") != nullptr);
    CHECK(directory.files().empty());
  }
}

MAIN()
