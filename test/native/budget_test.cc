// Which borders are chosen for a budget, as arithmetic.
#include "../../native/fence/budget.h"

#include <cmath>

#include "check.h"

using namespace picket;

namespace {

constexpr double kHalfPercent = 0.005;

}  // namespace

TEST(samples_of_a_stride_are_spread_and_counted) {
  for (uint32_t stride : {1u, 3u, 5u, 9u, 17u})
    for (uint32_t count = 0; count < 40; count++) {
      uint32_t seen = 0;
      for (uint32_t i = 0; i < count; i++) seen += is_sampled(i, stride);
      CHECK_EQ(sampled(count, stride), seen);
    }
}

TEST(plans_keep_within_the_budget_or_as_near_as_they_can) {
  PhaseUses uses;
  uses[1] = {36, 0, kNoPhase, false};  // layer
  uses[2] = {36, 1, 1, false};         // attention in it
  uses[3] = {36, 1, 1, false};         // mlp in it
  uses[4] = {72, 0, kNoPhase, true};   // collectives beside
  auto plan_at = [&](double span) { return choose_plan(uses, {}, 100, span, kHalfPercent); };
  CHECK_EQ(plan_at(10e6).kept, 362u);
  CHECK(plan_at(10e6).strides.empty());
  Plan layers = plan_at(5e6);  // room for 250: what is deepest goes first, the layers stay
  CHECK(layers.kept <= 250 && layers.kept > 200);
  CHECK_EQ(layers.stride_of(1), 1u);
  CHECK_EQ(layers.stride_of(4), 1u);
  CHECK(plan_at(3.2e6).stride_of(1) > 1);
  CHECK_EQ(plan_at(3.2e6).stride_of(4), 1u);
  Plan least = plan_at(1e4);
  CHECK(least.kept > 0 && least.predicted > kHalfPercent);
  CHECK(choose_plan(uses, {}, 0, 1e6, kHalfPercent).strides.empty());
  CHECK(choose_plan(uses, {}, 100, 0, kHalfPercent).strides.empty());
}

TEST(merged_borders_cost_nothing_where_both_are_stamped) {
  PhaseUses uses;
  uses[1] = {36, 0, kNoPhase, false};  // layer
  uses[2] = {36, 1, 1, false};         // mlp in it
  // A layer begins where the last one ended; mlp ends where the layer does.
  Merges merges = {{{1, 1}, 35}, {{2, 1}, 36}, {{0, 1}, 1}};
  Plan all = choose_plan(uses, merges, 100, 10e6, kHalfPercent);
  CHECK_EQ(all.kept, 146u);
  CHECK_EQ(std::lround(all.fences), 146 - 35 - 36 - 1);
  // Room for 40 fences: every layer, and few mlp.
  Plan layers = choose_plan(uses, merges, 100, 40 * 100 / kHalfPercent, kHalfPercent);
  CHECK_EQ(layers.stride_of(1), 1u);
  CHECK(layers.stride_of(2) > 1 && layers.fences <= 40);
  // Layers that are sampled are no neighbours.
  Plan few = choose_plan(uses, merges, 100, 12 * 100 / kHalfPercent, kHalfPercent);
  CHECK(few.stride_of(1) > 1 && few.kept - few.fences < 3);
}

MAIN()
