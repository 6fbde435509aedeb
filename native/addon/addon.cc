// What Node.js sees: the layout this addon was compiled with, and the Segment class. Declared in ../ts/native.ts.
#include <napi.h>

#include "../tools/layout_table.h"
#include "segment_object.h"

namespace {

Napi::Value layout(const Napi::CallbackInfo& info) {
  Napi::Object all = Napi::Object::New(info.Env());
  all.Set("segmentPrefix", PICKET_SEGMENT_PREFIX);
  for (const auto& field : picket::layout_table()) {
    if (!all.Has(field.section)) all.Set(field.section, Napi::Object::New(info.Env()));
    all.Get(field.section).As<Napi::Object>().Set(picket::camel_case(field.name), double(field.value));
  }
  return all;
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports.Set("layout", Napi::Function::New(env, layout));
  exports.Set("Segment", picket::SegmentObject::define(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(picket_native, initialise)
