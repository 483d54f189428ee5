// The dispatcher's handle of an operator, found once: `static const auto op = autofn::find<Signature>("autofn::exp");`
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace autofn {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace autofn
