#include "overhead.h"

#include <stdio.h>

#include <algorithm>

#include "../ring/atomics.h"
#include "spans.h"

namespace picket {
namespace {

// Between kernels that fill the GPU a launched fence cost three times what it does in the calibration, which does not
// see how the tail of one kernel and the start of the next overlap (docs/overhead.md).
constexpr double kLaunchedFactor = 3;
// In the graph of a model a fence in line cost up to 2.1 times what it does in the calibration; a third of the budget is
// left free, since most such passes show little else. One beside the stream cost up to 1.3 times, where fences are
// sparse up to 2.6 times, and beside collectives, which hand each delay of a rank on to the others, up to 6 times.
constexpr double kInLineFactor = 3, kSideFactor = 2, kHandedOnFactor = 6;
constexpr size_t kMaxDepth = 64;  // phases that never end must not pile up

bool has_collectives(const PhaseUses& uses) {
  return std::any_of(uses.begin(), uses.end(), [](const auto& one) { return one.second.comm; });
}

}  // namespace

void Overhead::open(Segment* segment, Gpu* gpu, Phases* phases, double budget) {
  segment_ = segment, gpu_ = gpu, phases_ = phases;
  budget_ = gpu ? budget : 0;
  if (!gpu) return;
  picket_control* control = segment->control();
  control->overhead_budget = float(budget_);
  control->fence_side_ns = float(gpu->costs().side_ns);
  control->fence_in_line_ns = float(gpu->costs().in_line_ns);
  control->fence_eager_ns = float(gpu->costs().eager_ns);
}

Overhead::Lane& Overhead::lane_of(const BorderPlace& place) {
  Lane& lane = lanes_[place.lane];
  if (lane.capture == place.capture && lane.open.size() < kMaxDepth) return lane;
  lane = Lane();
  lane.capture = place.capture;
  return lane;
}

uint32_t Overhead::begin(BorderPlace* place, uint32_t phase, bool always) {
  uint8_t kind = segment_->phases()[phase].kind;
  if (budget_ <= 0 || kind == PICKET_KIND_STEP) return phase;
  Lane& lane = lane_of(*place);
  if (lane.open.empty() && kind == PICKET_KIND_COMPUTE) enter_pass(place, &lane, phase);
  follow(place, &lane, phase);
  bool outermost = lane.open.empty();
  lane.open.push_back(outermost ? Open{phase, phase, 1} : nested(&lane, phase, kind == PICKET_KIND_COMM, always));
  return lane.open.back().written;
}

Overhead::Open Overhead::nested(Lane* lane, uint32_t phase, bool comm, bool always) {
  const Open& around = lane->open.back();
  if (!always) {
    PhaseUse& use = lane->uses[phase];
    use.depth = uint32_t(lane->open.size()) - 1;
    use.parent = use.depth == 0 ? kNoPhase : around.phase;
    use.comm = comm;
    use.count++;
  }
  if (around.written == kLeftOut) return {phase, kLeftOut, 1};
  uint32_t stride = always ? 1 : lane->plan.stride_of(phase);
  if (!is_sampled(lane->seen[phase]++, stride)) return {phase, kLeftOut, 1};
  double weight = around.weight;
  if (stride > 1) {
    uint32_t count = passes_[lane->open.front().phase].uses[phase].count;
    weight *= double(count) / std::max(1u, sampled(count, stride));
  }
  return {phase, phases_->weighted(segment_, phase, float(weight)), weight};
}

uint32_t Overhead::end(BorderPlace* place, uint32_t phase) {
  if (budget_ <= 0 || segment_->phases()[phase].kind == PICKET_KIND_STEP) return phase;
  Lane& lane = lane_of(*place);
  follow(place, &lane, phase);
  for (size_t at = lane.open.size(); at-- > 0;) {
    if (lane.open[at].phase != phase) continue;
    uint32_t written = lane.open[at].written;
    lane.open.resize(at);
    if (at == 0) leave_pass(&lane, phase);
    return written;
  }
  return phase;
}

void Overhead::stamped_in_line(const BorderPlace& place, CuNode node) {
  if (budget_ > 0) lanes_[place.lane].waits = {node};
}

void Overhead::follow(BorderPlace* place, Lane* lane, uint32_t phase) {
  if (place->capture == 0) return;
  if (lane->last != kLeftOut && lane->waits == place->waits) lane->merges[{lane->last, phase}]++;
  lane->last = phase;
  lane->waits = place->waits;
  if (place->free && !lane->open.empty()) place->form = lane->form;
}

void Overhead::enter_pass(BorderPlace* place, Lane* lane, uint32_t phase) {
  Pass& pass = passes_[phase];
  lane->uses.clear();
  lane->seen.clear();
  lane->merges.clear();
  lane->last = kLeftOut;
  if (place->capture != 0) {
    pass.gates = std::max(pass.gates, 1);  // the next pass may warm up for the next capture
    lane->plan = plan_of(place, pass, phase);
    lane->form = place->form;
    return;
  }
  if (pass.gates > 0) {
    if (!gate_shut_ && gpu_->hold(place->stream) == 0) pass.gates--, gate_shut_ = lane->gated = true;
  } else if (!pass.planned) {
    pass.planned = true;
    pass.eager = plan_of(place, pass, phase);
  }
  lane->plan = pass.eager;
}

void Overhead::leave_pass(Lane* lane, uint32_t phase) {
  auto pass = passes_.find(phase);
  if (pass != passes_.end()) pass->second.uses = lane->uses;
  if (pass != passes_.end() && lane->capture != 0) pass->second.merges = lane->merges;
  if (!lane->gated) return;
  gpu_->let_go();
  gate_shut_ = lane->gated = false;
}

double Overhead::price_of(const BorderPlace& place, const PhaseUses& uses) const {
  const FenceCosts& costs = gpu_->costs();
  if (place.capture == 0) return kLaunchedFactor * costs.eager_ns;
  if (place.form == PICKET_FORM_IN_LINE) return kInLineFactor * costs.in_line_ns;
  return (has_collectives(uses) ? kHandedOnFactor : kSideFactor) * costs.side_ns;
}

Plan Overhead::plan_of(BorderPlace* place, const Pass& pass, uint32_t phase) {
  auto spans = shortest_spans(*segment_);
  auto span = spans.find(phase);
  double span_ns = span == spans.end() ? 0 : span->second;
  auto plan_for = [&] {
    const Merges& merges = place->capture != 0 ? pass.merges : Merges();
    return choose_plan(pass.uses, merges, price_of(*place, pass.uses), span_ns, budget_);
  };
  Plan plan = plan_for();
  if (place->capture != 0 && place->free && plan.predicted > 0) {
    int other = place->form == PICKET_FORM_SIDE ? PICKET_FORM_IN_LINE : PICKET_FORM_SIDE;
    std::swap(place->form, other);
    Plan second = plan_for();
    // What stays within the budget, then what shows more.
    bool within = second.predicted <= budget_, before = plan.predicted <= budget_;
    bool better = within != before ? within : before ? second.kept > plan.kept : second.predicted < plan.predicted;
    if (better)
      plan = second;
    else
      place->form = other;
  }
  report(*place, plan, phase, span_ns);
  return plan;
}

void Overhead::report(const BorderPlace& place, const Plan& plan, uint32_t phase, double span_ns) {
  picket_control* control = segment_->control();
  const char* form = place.capture == 0 ? "launched" : place.form == PICKET_FORM_SIDE ? "side nodes" : "in line";
  control->overhead_predicted = float(plan.predicted);
  control->pass_us = float(span_ns / 1000);
  control->plan_form = place.capture == 0 ? -1 : place.form;
  control->plan_borders = plan.borders;
  control->plan_kept = plan.kept;
  char text[256];
  if (plan.predicted > 0)
    snprintf(text, sizeof(text),
             "%s: %s, %u of %u borders of a pass of %.3f ms, predicted overhead %.2f %% of at most %.2f %%",
             segment_->phases()[phase].name, form, plan.kept, plan.borders, span_ns / 1e6, 100 * plan.predicted,
             100 * budget_);
  else
    snprintf(text, sizeof(text), "%s: %s, all borders: no pass was seen before, or fences could not be measured",
             segment_->phases()[phase].name, form);
  reason_ = text;
  for (auto& [sampled_phase, stride] : plan.strides)
    reason_ += std::string("; 1 of ") + std::to_string(stride) + " " + segment_->phases()[sampled_phase].name;
  __atomic_fetch_add(&control->plans, 1, __ATOMIC_RELEASE);
}

}  // namespace picket
