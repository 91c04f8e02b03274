// Launches the kernels of one artifact on one device: reads tensors, compares
// them with what the artifact was compiled for, and calls the driver.
//
// It only does what it is sure of. A tensor that is not as expected is no
// error here: the call returns False, and the Python side, which has the
// messages, does the whole of it again.
//
// Tensors are read through DLPack's exchange interface, which PyTorch offers
// as a table of C functions, so that nothing of PyTorch is compiled in. Only
// the stable part of Python's interface is used: one file serves all versions
// of Python from 3.10 on.

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ---- DLPack 1, as far as it is needed (https://dmlc.github.io/dlpack)

typedef struct {
  int32_t type, id;
} Device;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} ElementType;

typedef struct {
  void *data;
  Device device;
  int32_t rank;
  ElementType dtype;
  int64_t *shape, *strides;
  uint64_t byteOffset;
} Tensor;

typedef struct Exchange {
  uint32_t major, minor;
  struct Exchange *previous;
  void *allocate, *fromObject, *toObject;
  int (*view)(void *object, Tensor *out);
  void *stream;
} Exchange;

// ---- the driver's launch configuration (cuda.h of CUDA 12 and later)

typedef struct {
  unsigned id, padding;
  union {
    unsigned cluster[3];
    int flag;
    char room[64];
  } value;
} Attribute;

typedef struct {
  unsigned grid[3], block[3], sharedBytes;
  void *stream;
  Attribute *attributes;
  unsigned count;
} Config;

typedef int (*LaunchFn)(const Config *, void *function, void **params,
                        void **extra);

enum { ClusterDimension = 4, EarlyStart = 6, MapBytes = 128, MaxRank = 16 };

// ---- what a program is made of

typedef struct {
  ElementType dtype;
  int32_t rank;
  int64_t shape[MaxRank], strides[MaxRank];
  int64_t bytes; // from the first to the last element
} Spec;

typedef struct {
  int source;      // which of the inputs, outputs and workspace buffers
  uint64_t offset; // bytes
  int map;         // of the tensor maps, -1 for an address
} Param;

typedef struct {
  Config config;
  Attribute attributes[2];
  void *function;
  int first, count; // its parameters
} Kernel;

typedef struct {
  PyObject_HEAD
  const Exchange *exchange;
  PyObject *owner; // the capsule with the table of functions
  PyObject *types; // classes whose objects are tensors and nothing else
  PyObject *encode, *gradient;
  LaunchFn launch;
  Device device;
  uint64_t alignment;
  int inputs, outputs, sources, params, maps, kernels;
  Spec *specs;
  uint64_t *buffers; // offsets of workspace buffers
  Param *param;
  Kernel *kernel;
  uint64_t *slots;
  void **pointers;
  char *rooms;        // tensor maps as the driver reads them
  uint64_t *resident; // whose maps they are
  pthread_mutex_t mutex;
} Launcher;

static int numbers(PyObject *tuple, int64_t *out, int most) {
  Py_ssize_t count = PyTuple_Size(tuple);
  if (count < 0 || count > most) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_ValueError, "expected at most %d numbers, got %zd",
                   most, count);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred())
      return -1;
  }
  return (int)count;
}

// (code, bits, bytes, shape, strides)
static int readSpec(PyObject *tuple, Spec *spec) {
  int code, bits;
  long long bytes;
  PyObject *shape, *strides;
  if (!PyArg_ParseTuple(tuple, "iiLO!O!", &code, &bits, &bytes, &PyTuple_Type,
                        &shape, &PyTuple_Type, &strides))
    return -1;
  spec->dtype = (ElementType){(uint8_t)code, (uint8_t)bits, 1};
  spec->bytes = bytes;
  spec->rank = numbers(shape, spec->shape, MaxRank);
  if (spec->rank < 0 || numbers(strides, spec->strides, MaxRank) != spec->rank)
    return -1;
  return 0;
}

// (source, offset, map)
static int readParam(PyObject *tuple, Param *param) {
  long long offset;
  if (!PyArg_ParseTuple(tuple, "iLi", &param->source, &offset, &param->map))
    return -1;
  param->offset = (uint64_t)offset;
  return 0;
}

// (function, six sizes, shared bytes, three of a cluster or (), early, params)
static int readKernel(Launcher *self, PyObject *tuple, Kernel *kernel,
                      int *param) {
  unsigned long long function;
  PyObject *sizes, *cluster, *params;
  int early;
  unsigned shared;
  int64_t found[6];
  if (!PyArg_ParseTuple(tuple, "KO!IO!pO!", &function, &PyTuple_Type, &sizes,
                        &shared, &PyTuple_Type, &cluster, &early, &PyTuple_Type,
                        &params))
    return -1;
  if (numbers(sizes, found, 6) != 6)
    return -1;
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
  if (early) {
    Attribute *attribute = &kernel->attributes[config->count++];
    attribute->id = EarlyStart;
    attribute->value.flag = 1;
  }
  kernel->first = *param;
  kernel->count = (int)PyTuple_Size(params);
  for (int i = 0; i < kernel->count; ++i) {
    Param *place = &self->param[*param];
    if (readParam(PyTuple_GetItem(params, i), place) < 0)
      return -1;
    if (place->source < 0 || place->source >= self->sources ||
        place->map >= self->maps) {
      PyErr_SetString(PyExc_ValueError, "a parameter of no buffer");
      return -1;
    }
    self->pointers[*param] = place->map < 0
                                 ? (void *)&self->slots[*param]
                                 : (void *)(self->rooms + MapBytes * place->map);
    ++*param;
  }
  return 0;
}

static void *zeroed(size_t count, size_t size) {
  return calloc(count ? count : 1, size);
}

static int allocate(Launcher *self) {
  self->specs = zeroed(self->inputs + self->outputs, sizeof(Spec));
  self->buffers = zeroed(self->sources, sizeof(uint64_t));
  self->param = zeroed(self->params, sizeof(Param));
  self->kernel = zeroed(self->kernels, sizeof(Kernel));
  self->slots = zeroed(self->params, sizeof(uint64_t));
  self->pointers = zeroed(self->params, sizeof(void *));
  self->resident = zeroed(self->maps, sizeof(uint64_t));
  size_t rooms = (size_t)MapBytes * (self->maps ? self->maps : 1);
  self->rooms = aligned_alloc(MapBytes, rooms);
  if (!self->specs || !self->buffers || !self->param || !self->kernel ||
      !self->slots || !self->pointers || !self->resident || !self->rooms) {
    PyErr_NoMemory();
    return -1;
  }
  return 0;
}

static int fill(Launcher *self, PyObject *specs, PyObject *buffers,
                PyObject *kernels) {
  for (int i = 0; i < self->inputs + self->outputs; ++i)
    if (readSpec(PyTuple_GetItem(specs, i), &self->specs[i]) < 0)
      return -1;
  int first = self->inputs + self->outputs;
  for (int i = first; i < self->sources; ++i) {
    self->buffers[i] =
        PyLong_AsUnsignedLongLong(PyTuple_GetItem(buffers, i - first));
    if (PyErr_Occurred())
      return -1;
  }
  int param = 0;
  for (int i = 0; i < self->kernels; ++i)
    if (readKernel(self, PyTuple_GetItem(kernels, i), &self->kernel[i],
                   &param) < 0)
      return -1;
  return 0;
}

static int countParams(PyObject *kernels) {
  Py_ssize_t count = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(kernels); ++i) {
    PyObject *kernel = PyTuple_GetItem(kernels, i);
    PyObject *params =
        PyTuple_Check(kernel) ? PyTuple_GetItem(kernel, 5) : NULL;
    if (!params || !PyTuple_Check(params)) {
      PyErr_Clear();
      PyErr_SetString(PyExc_TypeError, "expected kernels as tuples");
      return -1;
    }
    count += PyTuple_Size(params);
  }
  return (int)count;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"exchange", "launch",  "device", "alignment",
                          "types",    "specs",   "inputs", "buffers",
                          "kernels",  "maps",    "encode", NULL};
  PyObject *capsule, *types, *specs, *buffers, *kernels, *encode;
  unsigned long long launch, alignment;
  int deviceType, deviceId, inputs, maps;
  if (!PyArg_ParseTupleAndKeywords(
          args, named, "OK(ii)KO!O!iO!O!iO", names, &capsule, &launch,
          &deviceType, &deviceId, &alignment, &PyTuple_Type, &types,
          &PyTuple_Type, &specs, &inputs, &PyTuple_Type, &buffers,
          &PyTuple_Type, &kernels, &maps, &encode))
    return NULL;
  const Exchange *exchange =
      PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
  if (!exchange)
    return NULL;
  if (exchange->major != 1 || !exchange->view) {
    PyErr_SetString(PyExc_ValueError, "expected version 1 of DLPack");
    return NULL;
  }
  int params = countParams(kernels);
  if (params < 0)
    return NULL;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Launcher *self = (Launcher *)alloc(type, 0);
  if (!self)
    return NULL;
  pthread_mutex_init(&self->mutex, NULL);
  Py_INCREF(capsule);
  Py_INCREF(types);
  Py_INCREF(encode);
  self->exchange = exchange;
  self->owner = capsule;
  self->types = types;
  self->encode = encode;
  self->gradient = PyUnicode_InternFromString("requires_grad");
  self->launch = (LaunchFn)(uintptr_t)launch;
  self->device = (Device){deviceType, deviceId};
  self->alignment = alignment;
  self->inputs = inputs;
  self->outputs = (int)PyTuple_Size(specs) - inputs;
  self->sources = inputs + self->outputs + (int)PyTuple_Size(buffers);
  self->params = params;
  self->maps = maps;
  self->kernels = (int)PyTuple_Size(kernels);
  if (inputs < 0 || self->outputs < 0 || maps < 0 || !self->gradient ||
      allocate(self) < 0 || fill(self, specs, buffers, kernels) < 0) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "expected counts that fit");
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

static void destroy(PyObject *object) {
  Launcher *self = (Launcher *)object;
  PyTypeObject *type = Py_TYPE(object);
  Py_XDECREF(self->owner);
  Py_XDECREF(self->types);
  Py_XDECREF(self->encode);
  Py_XDECREF(self->gradient);
  free(self->specs);
  free(self->buffers);
  free(self->param);
  free(self->kernel);
  free(self->slots);
  free(self->pointers);
  free(self->resident);
  free(self->rooms);
  pthread_mutex_destroy(&self->mutex);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

// ---- a call

// 1 if the tensor is as it should be, 0 if not (or not surely).
static int fits(Launcher *self, PyObject *object, const Spec *spec,
                int gradients, uint64_t *address) {
  PyTypeObject *type = Py_TYPE(object);
  int known = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->types); ++i)
    known |= (PyObject *)type == PyTuple_GetItem(self->types, i);
  if (!known)
    return 0;
  if (gradients) {
    PyObject *wanted = PyObject_GetAttr(object, self->gradient);
    if (!wanted) {
      PyErr_Clear();
      return 0;
    }
    int trained = wanted != Py_False;
    Py_DECREF(wanted);
    if (trained)
      return 0;
  }
  Tensor x;
  if (self->exchange->view(object, &x) != 0) {
    PyErr_Clear();
    return 0;
  }
  if (x.device.type != self->device.type || x.device.id != self->device.id ||
      x.dtype.code != spec->dtype.code || x.dtype.bits != spec->dtype.bits ||
      x.dtype.lanes != 1 || x.rank != spec->rank)
    return 0;
  for (int i = 0; i < x.rank; ++i)
    if (x.shape[i] != spec->shape[i] ||
        (x.shape[i] > 1 && (!x.strides || x.strides[i] != spec->strides[i])))
      return 0;
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

// Whether any output shares memory with another tensor.
static int overlap(const Launcher *self, const uint64_t *addresses) {
  for (int i = self->inputs; i < self->inputs + self->outputs; ++i)
    for (int j = 0; j < i; ++j)
      if (addresses[i] < addresses[j] + (uint64_t)self->specs[j].bytes &&
          addresses[j] < addresses[i] + (uint64_t)self->specs[i].bytes)
        return 1;
  return 0;
}

// The maps of the tensors at `values`, into `maps`; asks Python for those that
// are not there yet. -1 on an error, with the exception set.
static int encode(Launcher *self, const uint64_t *values, char *maps) {
  for (int i = 0; i < self->params; ++i) {
    int map = self->param[i].map;
    if (map < 0)
      continue;
    PyObject *found =
        PyObject_CallFunction(self->encode, "iK", map,
                              (unsigned long long)values[i]);
    if (!found)
      return -1;
    char *bytes;
    Py_ssize_t count;
    if (PyBytes_AsStringAndSize(found, &bytes, &count) < 0 ||
        count != MapBytes) {
      Py_DECREF(found);
      if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "expected 128 bytes");
      return -1;
    }
    memcpy(maps + (size_t)MapBytes * map, bytes, MapBytes);
    Py_DECREF(found);
  }
  return 0;
}

static int resident(const Launcher *self, const uint64_t *values) {
  for (int i = 0; i < self->params; ++i)
    if (self->param[i].map >= 0 &&
        self->resident[self->param[i].map] != values[i])
      return 0;
  return 1;
}

enum { NeedMaps = -1 };

// All launches; the number of the one that failed in `failed`. NeedMaps where
// there are no `maps` and those that are there are of other tensors.
static int launchAll(Launcher *self, const uint64_t *values, const char *maps,
                     void *stream, int *failed) {
  int code = 0;
  pthread_mutex_lock(&self->mutex);
  if (!maps && !resident(self, values)) {
    pthread_mutex_unlock(&self->mutex);
    return NeedMaps;
  }
  memcpy(self->slots, values, sizeof(uint64_t) * (size_t)self->params);
  if (maps) {
    memcpy(self->rooms, maps, (size_t)MapBytes * self->maps);
    for (int i = 0; i < self->params; ++i)
      if (self->param[i].map >= 0)
        self->resident[self->param[i].map] = values[i];
  }
  for (int i = 0; i < self->kernels && !code; ++i) {
    Kernel *kernel = &self->kernel[i];
    kernel->config.stream = stream;
    code = self->launch(&kernel->config, kernel->function,
                        self->pointers + kernel->first, NULL);
    *failed = i;
  }
  pthread_mutex_unlock(&self->mutex);
  return code;
}

// Checks tensors and finds the values of all parameters. 1, 0 where a tensor
// does not fit.
static int prepare(Launcher *self, PyObject *tensors, PyObject *results,
                   int given, int gradients, uint64_t workspace,
                   uint64_t *addresses, uint64_t *values) {
  if (length(tensors) != self->inputs || length(results) != self->outputs)
    return 0;
  for (int i = 0; i < self->inputs + self->outputs; ++i) {
    PyObject *x = i < self->inputs ? item(tensors, i)
                                   : item(results, i - self->inputs);
    if (!x || !fits(self, x, &self->specs[i], gradients, &addresses[i])) {
      PyErr_Clear();
      return 0;
    }
  }
  if (given && overlap(self, addresses))
    return 0;
  for (int i = self->inputs + self->outputs; i < self->sources; ++i)
    addresses[i] = workspace + self->buffers[i];
  for (int i = 0; i < self->params; ++i)
    values[i] = addresses[self->param[i].source] + self->param[i].offset;
  return 1;
}

static PyObject *finish(int code, int failed) {
  if (!code)
    Py_RETURN_TRUE;
  return Py_BuildValue("(ii)", failed, code);
}

// launch(tensors, results, given, gradients, workspace, stream): True, False
// where a tensor does not fit, or (kernel, error code of the driver).
static PyObject *call(PyObject *object, PyObject *args) {
  Launcher *self = (Launcher *)object;
  PyObject *tensors, *results;
  int given, gradients;
  unsigned long long workspace, stream;
  if (!PyArg_ParseTuple(args, "OOppKK", &tensors, &results, &given, &gradients,
                        &workspace, &stream))
    return NULL;
  size_t numbers = (size_t)(self->sources + self->params + 1);
  uint64_t few[64];
  uint64_t *addresses =
      numbers <= 64 ? few : malloc(sizeof(uint64_t) * numbers);
  if (!addresses)
    return PyErr_NoMemory();
  uint64_t *values = addresses + self->sources;
  PyObject *found = NULL;
  char *maps = NULL;
  if (!prepare(self, tensors, results, given, gradients, workspace, addresses,
               values)) {
    found = Py_False;
    Py_INCREF(found);
    goto done;
  }
  int code, failed = 0;
  while (1) {
    Py_BEGIN_ALLOW_THREADS;
    code = launchAll(self, values, maps, (void *)(uintptr_t)stream, &failed);
    Py_END_ALLOW_THREADS;
    if (code != NeedMaps)
      break;
    maps = malloc((size_t)MapBytes * self->maps);
    if (!maps || encode(self, values, maps) < 0) {
      if (!maps)
        PyErr_NoMemory();
      goto done;
    }
  }
  found = finish(code, failed);
done:
  free(maps);
  if (addresses != few)
    free(addresses);
  return found;
}

static PyMethodDef methods[] = {
    {"launch", call, METH_VARARGS,
     "launch(tensors, results, given, gradients, workspace, stream): True, "
     "False where a tensor does not fit, (kernel, code) where the driver "
     "fails."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, make},
                              {Py_tp_dealloc, destroy},
                              {Py_tp_methods, methods},
                              {0, NULL}};

static PyType_Spec description = {"mirage.runtime._launcher.Launcher",
                                  sizeof(Launcher), 0, Py_TPFLAGS_DEFAULT,
                                  slots};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_launcher", .m_size = -1};

PyMODINIT_FUNC PyInit__launcher(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&description) : NULL;
  if (!type || PyModule_AddObject(module, "Launcher", type) < 0) {
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
  }
  return module;
}
