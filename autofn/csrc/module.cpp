// The extension module. Loading it runs the registrations of every kernel.cpp that was linked in; the functions that it
// holds are the counting allocator's.
#include "allocator.h"

PyMODINIT_FUNC PyInit__C() {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_C", "Operators of autofn, registered as torch.ops.autofn, and the counting allocator.",
      -1, autofn::allocator_methods()};
  return PyModule_Create(&definition);
}
