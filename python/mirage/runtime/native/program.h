// What an artifact is made of, read from tuples of Python.
//
// Shapes and grids are those of its largest size. What has `each` rows for each
// unit of the size has fewer at a smaller one; where that is 0 nothing changes.

#ifndef MIRAGE_RUNTIME_NATIVE_PROGRAM_H
#define MIRAGE_RUNTIME_NATIVE_PROGRAM_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include "interfaces.h"

#include <stdlib.h>

typedef struct {
  ElementType dtype;
  int32_t rank;
  int64_t shape[MaxRank], strides[MaxRank];
  int64_t bytes; // from the first to the last element
  int64_t each;
} Spec;

typedef struct {
  int type, swizzle, rank;
  uint64_t shape[MapRank], strides[MapRank]; // innermost first, bytes
  uint32_t box[MapRank];
  uint64_t each;
} MapSpec;

enum { TheSize = -1 };

typedef struct {
  int source;      // which input, output or workspace buffer, or TheSize
  uint64_t offset; // bytes
  int map;         // of the tensor maps, -1 for an address
} Param;

typedef struct {
  Config config;
  Attribute attributes[2];
  void *function;
  int first, count;    // its parameters
  int early;           // whether it may start before the one before has ended
  int64_t rows[2];     // ceil(size * rows[0] / rows[1]) parts of its grid run
  unsigned partBlocks; // along x; 0 where the whole grid runs at any size
} Kernel;

typedef struct {
  int inputs, outputs, sources, params, maps, kernels;
  int64_t most; // the largest size; 0: there is none
  int sized;    // the first input that has rows
  Spec *specs;
  uint64_t *buffers; // offsets of workspace buffers
  Param *param;
  MapSpec *map;
  Kernel *kernel;
} Program;

static int numbers(PyObject *tuple, int64_t *out, int most) {
  Py_ssize_t count = PyTuple_Size(tuple);
  if (count < 0 || count > most) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_ValueError, "expected at most %d numbers, got %zd", most, count);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred())
      return -1;
  }
  return (int)count;
}

static int invalid(const char *what) {
  if (!PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, what);
  return -1;
}

// (code, bits, bytes, shape, strides, each)
static int readSpec(PyObject *tuple, Spec *spec, int64_t most) {
  int code, bits;
  long long bytes, each;
  PyObject *shape, *strides;
  if (!PyArg_ParseTuple(tuple, "iiLO!O!L", &code, &bits, &bytes, &PyTuple_Type, &shape,
                        &PyTuple_Type, &strides, &each))
    return -1;
  spec->dtype = (ElementType){(uint8_t)code, (uint8_t)bits, 1};
  spec->bytes = bytes;
  spec->each = each;
  spec->rank = numbers(shape, spec->shape, MaxRank);
  if (spec->rank < 0 || numbers(strides, spec->strides, MaxRank) != spec->rank)
    return invalid("expected as many strides as extents");
  if (each && (spec->rank < 1 || each < 0 || spec->shape[0] != each * most))
    return invalid("expected rows for each unit of the size");
  return 0;
}

// (source, offset, map)
static int readParam(const Program *self, PyObject *tuple, Param *param) {
  long long offset;
  if (!PyArg_ParseTuple(tuple, "iLi", &param->source, &offset, &param->map))
    return -1;
  param->offset = (uint64_t)offset;
  int isSize = param->source == TheSize;
  if (isSize ? !self->most || param->map >= 0
             : param->source < 0 || param->source >= self->sources || param->map >= self->maps)
    return invalid("a parameter of no buffer");
  return 0;
}

// (type, swizzle, shape, strides, box, each)
static int readMap(PyObject *tuple, MapSpec *map) {
  PyObject *shape, *strides, *box;
  long long each;
  int64_t extents[MapRank], steps[MapRank], boxes[MapRank];
  if (!PyArg_ParseTuple(tuple, "iiO!O!O!L", &map->type, &map->swizzle, &PyTuple_Type, &shape,
                        &PyTuple_Type, &strides, &PyTuple_Type, &box, &each))
    return -1;
  map->rank = numbers(shape, extents, MapRank);
  if (map->rank < 1 || numbers(strides, steps, MapRank) != map->rank - 1 ||
      numbers(box, boxes, MapRank) != map->rank)
    return invalid("expected extents, strides but one, and a box");
  map->each = (uint64_t)each;
  for (int i = 0; i < map->rank; ++i) {
    map->shape[i] = (uint64_t)extents[i];
    map->strides[i] = i + 1 < map->rank ? (uint64_t)steps[i] : 0;
    map->box[i] = (uint32_t)boxes[i];
  }
  return 0;
}

static int64_t partsAt(const Kernel *kernel, int64_t size) {
  return (size * kernel->rows[0] + kernel->rows[1] - 1) / kernel->rows[1];
}

// (function, six sizes, shared bytes, three of a cluster or (), early, two of
// rows or (), params)
static int readKernel(const Program *self, PyObject *tuple, Kernel *kernel, int *param) {
  unsigned long long function;
  PyObject *sizes, *cluster, *rows, *params;
  unsigned shared;
  int64_t found[6];
  if (!PyArg_ParseTuple(tuple, "KO!IO!pO!O!", &function, &PyTuple_Type, &sizes, &shared,
                        &PyTuple_Type, &cluster, &kernel->early, &PyTuple_Type, &rows,
                        &PyTuple_Type, &params))
    return -1;
  if (numbers(sizes, found, 6) != 6)
    return invalid("expected six sizes");
  Config *config = &kernel->config;
  for (int i = 0; i < 3; ++i) {
    config->grid[i] = (unsigned)found[i];
    config->block[i] = (unsigned)found[i + 3];
  }
  config->sharedBytes = shared;
  config->attributes = kernel->attributes;
  kernel->function = (void *)(uintptr_t)function;
  int extents = numbers(cluster, found, 3);
  if (extents < 0)
    return -1;
  if (extents == 3) {
    Attribute *attribute = &kernel->attributes[config->count++];
    attribute->id = ClusterDimension;
    for (int i = 0; i < 3; ++i)
      attribute->value.cluster[i] = (unsigned)found[i];
  }
  if (kernel->early) {
    Attribute *attribute = &kernel->attributes[config->count++];
    attribute->id = EarlyStart;
    attribute->value.flag = 1;
  }
  int counts = numbers(rows, kernel->rows, 2);
  if (counts < 0)
    return -1;
  if (counts == 2) {
    if (!self->most || kernel->rows[0] < 1 || kernel->rows[1] < 1)
      return invalid("expected parts of a grid by the size");
    kernel->partBlocks = (unsigned)(config->grid[0] / partsAt(kernel, self->most));
  }
  kernel->first = *param;
  kernel->count = (int)PyTuple_Size(params);
  for (int i = 0; i < kernel->count; ++i)
    if (readParam(self, PyTuple_GetItem(params, i), &self->param[(*param)++]) < 0)
      return -1;
  return 0;
}

static void *zeroed(size_t count, size_t size) { return calloc(count ? count : 1, size); }

static int countParams(PyObject *kernels) {
  Py_ssize_t count = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(kernels); ++i) {
    PyObject *kernel = PyTuple_GetItem(kernels, i);
    PyObject *params = PyTuple_Check(kernel) ? PyTuple_GetItem(kernel, 6) : NULL;
    if (!params || !PyTuple_Check(params)) {
      PyErr_Clear();
      PyErr_SetString(PyExc_TypeError, "expected kernels as tuples");
      return -1;
    }
    count += PyTuple_Size(params);
  }
  return (int)count;
}

static int fillProgram(Program *self, PyObject *specs, PyObject *buffers, PyObject *maps,
                       PyObject *kernels) {
  self->sized = -1;
  for (int i = 0; i < self->inputs + self->outputs; ++i) {
    if (readSpec(PyTuple_GetItem(specs, i), &self->specs[i], self->most) < 0)
      return -1;
    if (self->sized < 0 && i < self->inputs && self->specs[i].each)
      self->sized = i;
  }
  if (self->most && self->sized < 0)
    return invalid("expected an input that has rows");
  int first = self->inputs + self->outputs;
  for (int i = first; i < self->sources; ++i) {
    self->buffers[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(buffers, i - first));
    if (PyErr_Occurred())
      return -1;
  }
  for (int i = 0; i < self->maps; ++i)
    if (readMap(PyTuple_GetItem(maps, i), &self->map[i]) < 0)
      return -1;
  int param = 0;
  for (int i = 0; i < self->kernels; ++i)
    if (readKernel(self, PyTuple_GetItem(kernels, i), &self->kernel[i], &param) < 0)
      return -1;
  return 0;
}

// Reads a program with `inputs` inputs. -1 on an error, with the exception set.
static int readProgram(Program *self, int inputs, long long most, PyObject *specs,
                       PyObject *buffers, PyObject *maps, PyObject *kernels) {
  self->inputs = inputs;
  self->outputs = (int)PyTuple_Size(specs) - inputs;
  self->sources = inputs + self->outputs + (int)PyTuple_Size(buffers);
  self->params = countParams(kernels);
  self->maps = (int)PyTuple_Size(maps);
  self->kernels = (int)PyTuple_Size(kernels);
  self->most = most;
  if (self->params < 0 || inputs < 0 || self->outputs < 0 || most < 0)
    return invalid("expected counts that fit");
  self->specs = zeroed(inputs + self->outputs, sizeof(Spec));
  self->buffers = zeroed(self->sources, sizeof(uint64_t));
  self->param = zeroed(self->params, sizeof(Param));
  self->map = zeroed(self->maps, sizeof(MapSpec));
  self->kernel = zeroed(self->kernels, sizeof(Kernel));
  if (!self->specs || !self->buffers || !self->param || !self->map || !self->kernel) {
    PyErr_NoMemory();
    return -1;
  }
  return fillProgram(self, specs, buffers, maps, kernels);
}

static void freeProgram(Program *self) {
  free(self->specs);
  free(self->buffers);
  free(self->param);
  free(self->map);
  free(self->kernel);
}

#endif // MIRAGE_RUNTIME_NATIVE_PROGRAM_H
