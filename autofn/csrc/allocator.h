// The counting allocator, as functions of the extension module.
#pragma once

#include <Python.h>

namespace autofn {

// The method table of allocator.cpp, ended by an empty entry.
PyMethodDef* allocator_methods();

}  // namespace autofn
