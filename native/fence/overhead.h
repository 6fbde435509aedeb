// Keeps what fences cost under the budget: follows the phases of each lane, learns what a pass through an outermost
// phase holds and how long it takes, and says which borders are left out. Callers lock.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "budget.h"
#include "gpu.h"
#include "names.h"

namespace picket {

// Where a border falls.
struct BorderPlace {
  CuStream stream;
  uint32_t lane;
  uint64_t capture;  // 0: none
  int form;          // of a captured border
  bool free;         // it may be another one, since none was asked for and nothing speaks against either
  std::vector<CuNode> waits;  // what the next kernel captured on the stream would wait for
};

class Overhead {
 public:
  static constexpr uint32_t kLeftOut = ~uint32_t(0);

  // budget: share of a pass; 0 none. gpu may be null: then everything is stamped.
  void open(Segment* segment, Gpu* gpu, Phases* phases, double budget);
  // The phase begins. Gives the id to stamp, or kLeftOut, and the form where that is free. `always`: this call is never
  // left out.
  uint32_t begin(BorderPlace* place, uint32_t phase, bool always);
  // The phase ends. Gives what begin gave; the phase itself where no begin is known.
  uint32_t end(BorderPlace* place, uint32_t phase);
  // The border was stamped by this node, in line: what the stream captures next waits for it.
  void stamped_in_line(const BorderPlace& place, CuNode node);
  // What was chosen last and why, for people.
  const std::string& reason() const { return reason_; }

 private:
  struct Open {
    uint32_t phase, written;  // written: id in the record
    double weight;            // occurrences that this one stands for
  };
  struct Lane {
    uint64_t capture = 0;
    std::vector<Open> open;
    PhaseUses uses;                     // in the outermost phase that is open
    std::map<uint32_t, uint32_t> seen;  // occurrences that sampling chooses from
    Plan plan;
    int form = PICKET_FORM_SIDE;  // where it is free
    bool gated = false;
    uint32_t last = kLeftOut;    // phase of the last border captured
    std::vector<CuNode> waits;  // as that border left the stream
    Merges merges;
  };
  // What is known of an outermost phase.
  struct Pass {
    PhaseUses uses;
    Merges merges;  // of the last one captured
    int gates = 3;  // passes still to be timed
    bool planned = false;
    Plan eager;
  };

  Lane& lane_of(const BorderPlace& place);
  void follow(BorderPlace* place, Lane* lane, uint32_t phase);
  void enter_pass(BorderPlace* place, Lane* lane, uint32_t phase);
  void leave_pass(Lane* lane, uint32_t phase);
  Open nested(Lane* lane, uint32_t phase, bool comm, bool always);
  Plan plan_of(BorderPlace* place, const Pass& pass, uint32_t phase);
  double price_of(const BorderPlace& place, const PhaseUses& uses) const;
  void report(const BorderPlace& place, const Plan& plan, uint32_t phase, double span_ns);

  Segment* segment_ = nullptr;
  Gpu* gpu_ = nullptr;
  Phases* phases_ = nullptr;
  double budget_ = 0;
  bool gate_shut_ = false;
  std::unordered_map<uint32_t, Lane> lanes_;
  std::unordered_map<uint32_t, Pass> passes_;
  std::string reason_ = "no phase has been captured yet";
};

}  // namespace picket
