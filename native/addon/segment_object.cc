#include "segment_object.h"

#include <string.h>

#include <algorithm>

#include "../ring/atomics.h"
#include "../ring/clock.h"

namespace picket {
namespace {

void throw_error(Napi::Env env, const std::string& code, const std::string& text) {
  Napi::Error error = Napi::Error::New(env, text);
  error.Set("code", code);
  error.ThrowAsJavaScriptException();
}

Napi::Value throw_type(Napi::Env env, const char* text) {
  Napi::TypeError::New(env, text).ThrowAsJavaScriptException();
  return env.Undefined();
}

bool is_array(const Napi::Value& value, napi_typedarray_type type) {
  return value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == type;
}

template <size_t N>
Napi::String text_of(Napi::Env env, const char (&field)[N]) {
  return Napi::String::New(env, field, strnlen(field, N));
}

Napi::Object result_of(Napi::Env env, const Drained& drained) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("count", drained.count);
  result.Set("lost", double(drained.lost));
  result.Set("first", double(drained.first));
  return result;
}

// The writer is dead or has closed: nothing more will come, and holes are not waited for. Asked before draining.
bool is_final(const Segment& segment) { return !segment.writer_alive(); }

}  // namespace

Napi::Function SegmentObject::define(Napi::Env env) {
  return DefineClass(env, "Segment",
                     {
                         InstanceMethod<&SegmentObject::info>("info"),
                         InstanceMethod<&SegmentObject::status>("status"),
                         InstanceMethod<&SegmentObject::phases>("phases"),
                         InstanceMethod<&SegmentObject::drain_fences>("drainFences"),
                         InstanceMethod<&SegmentObject::drain_hosts>("drainHosts"),
                         InstanceMethod<&SegmentObject::drain_clocks>("drainClocks"),
                         InstanceMethod<&SegmentObject::commit>("commit"),
                         InstanceMethod<&SegmentObject::close>("close"),
                     });
}

SegmentObject::SegmentObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<SegmentObject>(info) {
  if (info.Length() != 2 || !info[0].IsString() || !info[1].IsBoolean()) {
    throw_type(info.Env(), "new Segment(path: string, consume: boolean)");
    return;
  }
  std::string code, error;
  segment_ = Segment::open(info[0].As<Napi::String>(), info[1].As<Napi::Boolean>(), &code, &error);
  if (!segment_)
    throw_error(info.Env(), code, error);
  else if (info[1].As<Napi::Boolean>())
    reader_ = std::make_unique<RingReader>(segment_.get());
}

bool SegmentObject::usable(Napi::Env env) const {
  if (!segment_) throw_error(env, "closed", "the segment is closed");
  return segment_ != nullptr;
}

bool SegmentObject::consuming(Napi::Env env) const {
  if (!usable(env)) return false;
  if (!reader_) throw_error(env, "not_consuming", segment_->path() + ": opened only to look at, not to consume");
  return reader_ != nullptr;
}

Napi::Value SegmentObject::info(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!usable(env)) return env.Undefined();
  const picket_control& c = segment_->constant();
  Napi::Object out = Napi::Object::New(env);
  out.Set("versionMinor", c.version_minor);
  out.Set("pid", c.pid);
  out.Set("pidStartTicks", Napi::BigInt::New(env, c.pid_start_ticks));
  out.Set("pidNamespace", Napi::BigInt::New(env, c.pid_namespace));
  out.Set("createdRealtimeNs", Napi::BigInt::New(env, c.created_realtime_ns));
  out.Set("createdMonotonicNs", Napi::BigInt::New(env, c.created_monotonic_ns));
  out.Set("device", c.device);
  out.Set("clockSource", c.clock_source);
  out.Set("gpuUuid", text_of(env, c.gpu_uuid));
  out.Set("gpuName", text_of(env, c.gpu_name));
  out.Set("attributes", text_of(env, c.attributes));
  out.Set("fenceCapacity", c.fence_capacity);
  out.Set("hostCapacity", c.host_capacity);
  out.Set("clockCapacity", c.clock_capacity);
  return out;
}

Napi::Value SegmentObject::status(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!usable(env)) return env.Undefined();
  const picket_control* c = segment_->control();
  Napi::Object out = Napi::Object::New(env);
  out.Set("writerAlive", segment_->writer_alive());
  out.Set("closed", load_acquire(&c->state) == PICKET_STATE_CLOSED);
  out.Set("replaced", segment_->replaced());
  out.Set("heartbeatNs", Napi::BigInt::New(env, load_relaxed(&c->heartbeat_ns)));
  out.Set("fencesClaimed", double(load_acquire(&c->fence_claimed)));
  out.Set("hostsClaimed", double(load_acquire(&c->host_claimed)));
  out.Set("overheadPredicted", double(c->overhead_predicted));
  out.Set("graphNodes", double(load_relaxed(&c->graph_nodes)));
  out.Set("graphRecords", double(load_relaxed(&c->graph_records)));
  out.Set("launches", double(load_relaxed(&c->launches)));
  uint64_t errors = load_acquire(&c->errors);
  out.Set("errors", double(errors));
  out.Set("firstError", errors ? text_of(env, c->first_error) : env.Null());
  return out;
}

// phases(from): descriptions of the phases registered since there were `from` of them.
Napi::Value SegmentObject::phases(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!usable(env)) return env.Undefined();
  if (!info[0].IsNumber()) return throw_type(env, "phases(from: number)");
  uint32_t from = info[0].As<Napi::Number>().Uint32Value();
  uint32_t count = load_acquire(&segment_->control()->phase_count);
  if (count > segment_->constant().phase_capacity) count = segment_->constant().phase_capacity;
  Napi::Array out = Napi::Array::New(env);
  for (uint32_t id = from; id < count; id++) {
    const picket_phase_entry& entry = segment_->phases()[id];
    Napi::Object phase = Napi::Object::New(env);
    phase.Set("id", id);
    phase.Set("name", text_of(env, entry.name));
    phase.Set("kind", entry.kind);
    phase.Set("layer", entry.layer);
    phase.Set("weight", entry.weight > 0 ? double(entry.weight) : 1.0);
    phase.Set("op", text_of(env, entry.op));
    phase.Set("group", text_of(env, entry.group));
    phase.Set("bytes", double(entry.bytes));
    out.Set(id - from, phase);
  }
  return out;
}

Napi::Value SegmentObject::drain_fences(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!consuming(env)) return env.Undefined();
  if (!is_array(info[0], napi_biguint64_array) || !is_array(info[1], napi_uint32_array))
    return throw_type(env, "drainFences(times: BigUint64Array, ids: Uint32Array)");
  auto times = info[0].As<Napi::BigUint64Array>();
  auto ids = info[1].As<Napi::Uint32Array>();
  auto room = uint32_t(std::min(times.ElementLength(), ids.ElementLength()));
  bool final = is_final(*segment_);
  return result_of(env, reader_->drain_fences(times.Data(), ids.Data(), room, monotonic_ns(), final));
}

Napi::Value SegmentObject::drain_hosts(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!consuming(env)) return env.Undefined();
  if (!is_array(info[0], napi_biguint64_array)) return throw_type(env, "drainHosts(records: BigUint64Array)");
  auto records = info[0].As<Napi::BigUint64Array>();
  auto room = uint32_t(records.ByteLength() / sizeof(picket_host_record));
  auto* to = reinterpret_cast<picket_host_record*>(records.Data());
  bool final = is_final(*segment_);
  return result_of(env, reader_->drain_hosts(to, room, monotonic_ns(), final));
}

Napi::Value SegmentObject::drain_clocks(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (!consuming(env)) return env.Undefined();
  if (!is_array(info[0], napi_biguint64_array)) return throw_type(env, "drainClocks(samples: BigUint64Array)");
  auto samples = info[0].As<Napi::BigUint64Array>();
  auto room = uint32_t(samples.ByteLength() / sizeof(picket_clock_sample));
  auto* to = reinterpret_cast<picket_clock_sample*>(samples.Data());
  return Napi::Number::New(env, reader_->drain_clocks(to, room));
}

Napi::Value SegmentObject::commit(const Napi::CallbackInfo& info) {
  if (usable(info.Env()) && reader_) reader_->commit();
  return info.Env().Undefined();
}

Napi::Value SegmentObject::close(const Napi::CallbackInfo& info) {
  reader_.reset();
  segment_.reset();
  return info.Env().Undefined();
}

}  // namespace picket
