// The extension module. It holds nothing: loading it runs the registrations of every kernel.cpp that was linked in.
#include <Python.h>

PyMODINIT_FUNC PyInit__C() {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_C", "Operators of autofn, registered as torch.ops.autofn.", -1, nullptr};
  return PyModule_Create(&definition);
}
