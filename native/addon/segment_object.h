// A segment as a JavaScript object: checks arguments, copies, decides nothing.
#pragma once

#include <napi.h>

#include <memory>

#include "../ring/ring_reader.h"

namespace picket {

class SegmentObject : public Napi::ObjectWrap<SegmentObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit SegmentObject(const Napi::CallbackInfo& info);

 private:
  Napi::Value info(const Napi::CallbackInfo& info);
  Napi::Value status(const Napi::CallbackInfo& info);
  Napi::Value phases(const Napi::CallbackInfo& info);
  Napi::Value drain_fences(const Napi::CallbackInfo& info);
  Napi::Value drain_hosts(const Napi::CallbackInfo& info);
  Napi::Value drain_clocks(const Napi::CallbackInfo& info);
  Napi::Value commit(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  // False, with an exception pending, after close().
  bool usable(Napi::Env env) const;
  // The same, and after opening without `consume`.
  bool consuming(Napi::Env env) const;

  std::unique_ptr<Segment> segment_;
  std::unique_ptr<RingReader> reader_;
};

}  // namespace picket
