#include "budget.h"

#include <algorithm>
#include <vector>

namespace picket {
namespace {

double kept_share(const PhaseUses& uses, const Plan& plan, const PhaseUse& use, uint32_t phase) {
  double share = double(sampled(use.count, plan.stride_of(phase))) / use.count;
  auto parent = uses.find(use.parent);
  return parent == uses.end() || use.depth == 0 ? share : share * kept_share(uses, plan, parent->second, use.parent);
}

uint32_t kept_borders(const PhaseUses& uses, const Plan& plan) {
  double borders = 2;  // those of the pass itself
  for (auto& [phase, use] : uses) borders += 2 * use.count * kept_share(uses, plan, use, phase);
  return uint32_t(borders + 0.5);
}

// Share of the places where a border of one phase follows one of the other at which both are stamped.
double both_kept(const PhaseUses& uses, const Plan& plan, uint32_t one, uint32_t other) {
  auto first = uses.find(one), second = uses.find(other);
  if (first == uses.end() && second == uses.end()) return 1;  // the pass itself
  if (first == uses.end() || (second != uses.end() && second->second.parent == one))
    return kept_share(uses, plan, second->second, other);
  if (second == uses.end() || first->second.parent == other) return kept_share(uses, plan, first->second, one);
  if (plan.stride_of(one) > 1 || plan.stride_of(other) > 1) return 0;
  return std::min(kept_share(uses, plan, first->second, one), kept_share(uses, plan, second->second, other));
}

double kept_fences(const PhaseUses& uses, const Merges& merges, const Plan& plan) {
  double fences = plan.kept;
  for (auto& [pair, count] : merges) fences -= count * both_kept(uses, plan, pair.first, pair.second);
  return std::max(1.0, fences);
}

// Strides are 1, 3, 5, 9, 17 ...
uint32_t sparser(uint32_t stride) { return 2 * stride - 1; }
uint32_t denser(uint32_t stride) { return stride == 3 ? 1 : (stride + 1) / 2; }

// In the order in which they are thinned.
std::vector<uint32_t> thinnable(const PhaseUses& uses) {
  std::vector<uint32_t> order;
  for (auto& [phase, use] : uses)
    if (!use.comm || use.parent == kNoPhase) order.push_back(phase);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const PhaseUse &x = uses.at(a), &y = uses.at(b);
    if (x.comm != y.comm) return y.comm;
    return x.depth != y.depth ? x.depth > y.depth : a > b;
  });
  return order;
}

}  // namespace

uint32_t Plan::stride_of(uint32_t phase) const {
  auto found = strides.find(phase);
  return found == strides.end() ? 1 : found->second;
}

uint32_t sampled(uint32_t count, uint32_t stride) {
  return count > stride / 2 ? (count - 1 - stride / 2) / stride + 1 : 0;
}

Plan choose_plan(const PhaseUses& uses, const Merges& merges, double price, double span_ns, double budget) {
  Plan plan;
  plan.borders = plan.kept = kept_borders(uses, plan);
  plan.fences = kept_fences(uses, merges, plan);
  if (price <= 0 || span_ns <= 0 || budget <= 0) return plan;
  double allowed = budget * span_ns / price;
  auto set = [&](uint32_t phase, uint32_t stride) {
    plan.strides[phase] = stride;
    plan.kept = kept_borders(uses, plan);
    plan.fences = kept_fences(uses, merges, plan);
    return plan.fences <= allowed;
  };
  std::vector<uint32_t> order = thinnable(uses);
  for (uint32_t phase : order)
    for (uint32_t next = 3; plan.fences > allowed && sampled(uses.at(phase).count, next) > 0; next = sparser(next))
      set(phase, next);
  // What the last phase left of the budget goes to those that were thinned before it.
  for (auto phase = order.rbegin(); plan.fences <= allowed && phase != order.rend(); phase++)
    for (uint32_t stride = plan.stride_of(*phase); stride > 1; stride = denser(stride))
      if (!set(*phase, denser(stride))) {
        set(*phase, stride);
        break;
      }
  for (auto it = plan.strides.begin(); it != plan.strides.end();) it = it->second == 1 ? plan.strides.erase(it) : ++it;
  plan.predicted = price * plan.fences / span_ns;
  return plan;
}

}  // namespace picket
