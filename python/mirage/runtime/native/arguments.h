// Compares the tensors of a call with what the artifact was compiled for.

#ifndef MIRAGE_RUNTIME_NATIVE_ARGUMENTS_H
#define MIRAGE_RUNTIME_NATIVE_ARGUMENTS_H

#include "state.h"

// 1 if it is a plain tensor that no gradient is recorded for, surely.
static int isPlain(Launcher *self, PyObject *object, int gradients) {
  PyObject *types = self->held[Types];
  int known = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(types); ++i)
    known |= (PyObject *)Py_TYPE(object) == PyTuple_GetItem(types, i);
  if (!known || !gradients)
    return known;
  PyObject *wanted = PyObject_GetAttr(object, self->held[NameGradient]);
  if (!wanted) {
    PyErr_Clear();
    return 0;
  }
  int trained = wanted != Py_False;
  Py_DECREF(wanted);
  return !trained;
}

// 1 if the tensor is as it should be at the size, 0 if not (or not surely). A
// size of 0 is not known yet: the first tensor that has rows says it.
static int fits(Launcher *self, PyObject *object, const Spec *spec, int gradients, int64_t *size,
                uint64_t *address) {
  if (!isPlain(self, object, gradients))
    return 0;
  Tensor x;
  if (self->exchange->view(object, &x) != 0) {
    PyErr_Clear();
    return 0;
  }
  if (x.device.type != self->device.type || x.device.id != self->device.id ||
      x.dtype.code != spec->dtype.code || x.dtype.bits != spec->dtype.bits || x.dtype.lanes != 1 ||
      x.rank != spec->rank)
    return 0;
  if (spec->each && !*size) {
    if (x.shape[0] % spec->each)
      return 0;
    *size = x.shape[0] / spec->each;
    if (*size < 1 || *size > self->program.most)
      return 0;
  }
  for (int i = 0; i < x.rank; ++i) {
    int64_t wanted = i || !spec->each ? spec->shape[i] : spec->each * *size;
    if (x.shape[i] != wanted ||
        (x.shape[i] > 1 && (!x.strides || x.strides[i] != spec->strides[i])))
      return 0;
  }
  *address = (uint64_t)(uintptr_t)x.data + x.byteOffset;
  return *address % self->alignment == 0;
}

static PyObject *item(PyObject *sequence, Py_ssize_t place) {
  return PyTuple_Check(sequence) ? PyTuple_GetItem(sequence, place)
                                 : PyList_GetItem(sequence, place);
}

static Py_ssize_t length(PyObject *sequence) {
  if (PyTuple_Check(sequence))
    return PyTuple_Size(sequence);
  return PyList_Check(sequence) ? PyList_Size(sequence) : -1;
}

// What the first input that has rows says of the size; 0 where it says none.
static int inputsFit(Launcher *self, PyObject *tensors, int gradients, int64_t *size,
                     uint64_t *addresses) {
  const Program *p = &self->program;
  for (int k = 0; k < p->inputs; ++k) {
    // that input comes first, the others are compared with it
    int i = p->sized <= 0 || k > p->sized ? k : k ? k - 1 : p->sized;
    PyObject *x = item(tensors, i);
    if (!x || !fits(self, x, &p->specs[i], gradients, size, &addresses[i])) {
      PyErr_Clear();
      return 0;
    }
  }
  return 1;
}

static int resultsFit(Launcher *self, PyObject *results, int gradients, int64_t size,
                      uint64_t *addresses) {
  const Program *p = &self->program;
  if (PyTuple_Size(results) != p->outputs)
    return 0;
  for (int i = 0; i < p->outputs; ++i)
    if (!fits(self, PyTuple_GetItem(results, i), &p->specs[p->inputs + i], gradients, &size,
              &addresses[p->inputs + i]))
      return 0;
  return 1;
}

static uint64_t bytesAt(const Spec *spec, int64_t size) {
  if (!spec->each || !spec->bytes)
    return (uint64_t)spec->bytes;
  int64_t fewer = spec->shape[0] - spec->each * size;
  return (uint64_t)(spec->bytes - fewer * spec->strides[0] * (spec->dtype.bits / 8));
}

static int overlap(const Program *p, int64_t size, const uint64_t *addresses, int i, int j) {
  return addresses[i] < addresses[j] + bytesAt(&p->specs[j], size) &&
         addresses[j] < addresses[i] + bytesAt(&p->specs[i], size);
}

// Whether no output shares memory with another tensor.
static int resultsApart(const Program *p, int64_t size, const uint64_t *addresses) {
  for (int i = p->inputs; i < p->inputs + p->outputs; ++i)
    for (int j = 0; j < i; ++j)
      if (overlap(p, size, addresses, i, j))
        return 0;
  return 1;
}

// Whether no input that kernels write to shares memory with another one. It is
// looked at again where a tensor has moved.
static int updatesApart(Launcher *self, int64_t size, const uint64_t *addresses) {
  const Program *p = &self->program;
  size_t bytes = sizeof(uint64_t) * (size_t)p->inputs;
  if (!self->updateCount || (self->apartSize == size && !memcmp(self->apart, addresses, bytes)))
    return 1;
  for (int k = 0; k < self->updateCount; ++k)
    for (int i = 0; i < p->inputs; ++i)
      if (i != self->updates[k] && overlap(p, size, addresses, self->updates[k], i))
        return 0;
  memcpy(self->apart, addresses, bytes);
  self->apartSize = size;
  return 1;
}

#endif // MIRAGE_RUNTIME_NATIVE_ARGUMENTS_H
