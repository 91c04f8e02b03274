// Makes the results of a call.

#ifndef MIRAGE_RUNTIME_NATIVE_RESULTS_H
#define MIRAGE_RUNTIME_NATIVE_RESULTS_H

#include "state.h"

// A shape with as many rows as there are at a size.
static PyObject *shapeAt(PyObject *shape, int64_t rows) {
  Py_ssize_t rank = PyTuple_Size(shape);
  PyObject *found = PyTuple_New(rank);
  if (!found)
    return NULL;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject *extent = i ? PyTuple_GetItem(shape, i) : PyLong_FromLongLong(rows);
    if (i)
      Py_XINCREF(extent);
    if (!extent || PyTuple_SetItem(found, i, extent) < 0) {
      Py_DECREF(found);
      return NULL;
    }
  }
  return found;
}

static PyObject *emptyResult(Launcher *self, int number, int64_t size) {
  const Spec *spec = &self->program.specs[self->program.inputs + number];
  PyObject *result = PyTuple_GetItem(self->held[Results], number);
  PyObject *shape = result ? PyTuple_GetItem(result, 0) : NULL;
  PyObject *strides = result ? PyTuple_GetItem(result, 1) : NULL;
  PyObject *type = result ? PyTuple_GetItem(result, 2) : NULL;
  if (!shape || !strides || !type)
    return NULL;
  PyObject *own = spec->each ? shapeAt(shape, spec->each * size) : (Py_INCREF(shape), shape);
  if (!own)
    return NULL;
  PyObject *found = PyObject_CallFunctionObjArgs(self->held[Empty], own, strides, type, NULL);
  Py_DECREF(own);
  return found;
}

// New results, or those that are given, as a tuple. NULL on an error.
static PyObject *resultsOf(Launcher *self, PyObject *out, int64_t size) {
  if (out != Py_None)
    return PySequence_Tuple(out);
  int count = self->program.outputs;
  PyObject *results = PyTuple_New(count);
  for (int i = 0; results && i < count; ++i) {
    PyObject *y = emptyResult(self, i, size);
    if (!y || PyTuple_SetItem(results, i, y) < 0)
      Py_CLEAR(results);
  }
  return results;
}

#endif // MIRAGE_RUNTIME_NATIVE_RESULTS_H
