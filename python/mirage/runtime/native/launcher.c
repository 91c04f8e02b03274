// Calls an artifact on one device: reads tensors, compares them with what the
// artifact was compiled for, makes its results, and calls the driver.
//
// It only does what it is sure of. A tensor that is not as expected is no
// error here: the call returns None, and the Python side, which has the
// messages, does the whole of it again.
//
// An artifact with a size takes all of its sizes: grids, tensor maps and
// results are found in each call, so nothing is kept that could be of another.
//
// Tensors are read through DLPack's exchange interface, which PyTorch offers
// as a table of C functions, so that nothing of PyTorch is compiled in. Only
// the stable part of Python's interface is used: one file serves all versions
// of Python from 3.10 on.

#include "recordings.h"

#include <pthread.h>

// Objects of Python that a launcher holds.
enum Held {
  Owner,         // the capsule with the table of functions
  Types,         // classes whose objects are tensors and nothing else
  Results,       // shape, strides and type of each output
  Number,        // of the device
  CurrentDevice, // number of the device
  CurrentStream, // its address, of a device
  Gradients,     // whether they are recorded
  Empty,         // a tensor of a shape, strides and a type
  Ready,         // has `ready` in threads that have the device's context
  Workspace,     // memory between kernels on a stream, or None
  Failed,        // raises what an error code means, of a kernel or a map
  NameGradient,
  NameReady,
  NameAddress,
  HeldCount
};

typedef struct {
  PyObject_HEAD
  PyObject *held[HeldCount];
  Program program;
  const Exchange *exchange;
  LaunchFn launch;
  EncodeFn encode;
  Device device;
  uint64_t alignment;
  uint64_t *slots;
  void **pointers;
  char *rooms; // tensor maps as the driver reads them
  struct MapKey {
    uint64_t address;
    int64_t size;
  } *resident; // whose maps they are
  int *updates, updateCount; // inputs that kernels write to
  uint64_t *apart;           // addresses of inputs that do not overlap them
  int64_t apartSize;         // and the size then; -1: none are known
  Recordings recordings;
  pthread_mutex_t mutex;
} Launcher;

static int allocate(Launcher *self) {
  const Program *p = &self->program;
  self->slots = zeroed(p->params, sizeof(uint64_t));
  self->pointers = zeroed(p->params, sizeof(void *));
  self->resident = zeroed(p->maps, sizeof(struct MapKey));
  self->rooms = aligned_alloc(MapBytes, (size_t)MapBytes * (p->maps + 1));
  if (!self->slots || !self->pointers || !self->resident || !self->rooms) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < p->params; ++i)
    self->pointers[i] = p->param[i].map < 0
                            ? (void *)&self->slots[i]
                            : (void *)(self->rooms +
                                       (size_t)MapBytes * p->param[i].map);
  return 0;
}

// The numbers of inputs that kernels write to.
static int readUpdates(Launcher *self, PyObject *updates) {
  Py_ssize_t count = PyTuple_Size(updates);
  self->updates = zeroed(count, sizeof(int));
  self->apart = zeroed(self->program.inputs, sizeof(uint64_t));
  if (!self->updates || !self->apart) {
    PyErr_NoMemory();
    return -1;
  }
  self->updateCount = (int)count;
  self->apartSize = -1;
  for (int i = 0; i < count; ++i) {
    long number = PyLong_AsLong(PyTuple_GetItem(updates, i));
    if (number < 0 || number >= self->program.inputs)
      return invalid("expected numbers of inputs");
    self->updates[i] = (int)number;
  }
  return 0;
}

static void hold(Launcher *self, enum Held place, PyObject *object) {
  Py_XINCREF(object);
  self->held[place] = object;
}

// Names, the device's number, and what a call asks Python for.
static int holdAll(Launcher *self, PyObject *environment) {
  static const enum Held places[] = {Number,    CurrentDevice, CurrentStream,
                                     Gradients, Empty,         Results,
                                     Ready,     Workspace,     Failed};
  const int count = (int)(sizeof(places) / sizeof(*places));
  if (PyTuple_Size(environment) != count)
    return invalid("expected what a call asks Python for");
  for (int i = 0; i < count; ++i)
    hold(self, places[i], PyTuple_GetItem(environment, i));
  PyObject *results = self->held[Results];
  if (!PyTuple_Check(results) ||
      PyTuple_Size(results) != self->program.outputs)
    return invalid("expected the shapes of all outputs");
  self->held[NameGradient] = PyUnicode_InternFromString("requires_grad");
  self->held[NameReady] = PyUnicode_InternFromString("ready");
  self->held[NameAddress] = PyUnicode_InternFromString("data_ptr");
  return self->held[NameGradient] && self->held[NameReady] &&
                 self->held[NameAddress]
             ? 0
             : -1;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *named) {
  static char *names[] = {"exchange", "launch", "encode",  "device",
                          "alignment", "types", "specs",   "inputs",
                          "buffers",   "maps",  "kernels", "most",
                          "updates", "graphs", "environment", NULL};
  PyObject *capsule, *types, *specs, *buffers, *maps, *kernels, *updates;
  PyObject *graphs, *environment;
  unsigned long long launch, encode, alignment;
  long long most;
  int deviceType, deviceId, inputs;
  if (!PyArg_ParseTupleAndKeywords(
          args, named, "OKK(ii)KO!O!iO!O!O!LO!O!O!", names, &capsule, &launch,
          &encode, &deviceType, &deviceId, &alignment, &PyTuple_Type, &types,
          &PyTuple_Type, &specs, &inputs, &PyTuple_Type, &buffers,
          &PyTuple_Type, &maps, &PyTuple_Type, &kernels, &most, &PyTuple_Type,
          &updates, &PyTuple_Type, &graphs, &PyTuple_Type, &environment))
    return NULL;
  const Exchange *exchange =
      PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
  if (!exchange)
    return NULL;
  if (exchange->major != 1 || !exchange->view) {
    PyErr_SetString(PyExc_ValueError, "expected version 1 of DLPack");
    return NULL;
  }
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Launcher *self = (Launcher *)alloc(type, 0);
  if (!self)
    return NULL;
  pthread_mutex_init(&self->mutex, NULL);
  hold(self, Owner, capsule);
  hold(self, Types, types);
  self->exchange = exchange;
  self->launch = (LaunchFn)(uintptr_t)launch;
  self->encode = (EncodeFn)(uintptr_t)encode;
  self->device = (Device){deviceType, deviceId};
  self->alignment = alignment;
  if (readProgram(&self->program, inputs, most, specs, buffers, maps,
                  kernels) < 0 ||
      readRecordings(&self->recordings, graphs, &self->program) < 0 ||
      readUpdates(self, updates) < 0 || holdAll(self, environment) < 0 ||
      allocate(self) < 0) {
    invalid("expected a program");
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Launcher *self = (Launcher *)object;
  for (int i = 0; i < HeldCount; ++i)
    Py_VISIT(self->held[i]);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int clear(PyObject *object) {
  Launcher *self = (Launcher *)object;
  for (int i = 0; i < HeldCount; ++i)
    Py_CLEAR(self->held[i]);
  return 0;
}

static void destroy(PyObject *object) {
  Launcher *self = (Launcher *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  freeRecordings(&self->recordings);
  freeProgram(&self->program);
  free(self->slots);
  free(self->pointers);
  free(self->resident);
  free(self->rooms);
  free(self->updates);
  free(self->apart);
  pthread_mutex_destroy(&self->mutex);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

// ---- tensors

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
static int fits(Launcher *self, PyObject *object, const Spec *spec,
                int gradients, int64_t *size, uint64_t *address) {
  if (!isPlain(self, object, gradients))
    return 0;
  Tensor x;
  if (self->exchange->view(object, &x) != 0) {
    PyErr_Clear();
    return 0;
  }
  if (x.device.type != self->device.type || x.device.id != self->device.id ||
      x.dtype.code != spec->dtype.code || x.dtype.bits != spec->dtype.bits ||
      x.dtype.lanes != 1 || x.rank != spec->rank)
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
static int inputsFit(Launcher *self, PyObject *tensors, int gradients,
                     int64_t *size, uint64_t *addresses) {
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

static uint64_t bytesAt(const Spec *spec, int64_t size) {
  if (!spec->each || !spec->bytes)
    return (uint64_t)spec->bytes;
  int64_t fewer = spec->shape[0] - spec->each * size;
  return (uint64_t)(spec->bytes -
                    fewer * spec->strides[0] * (spec->dtype.bits / 8));
}

static int overlap(const Program *p, int64_t size, const uint64_t *addresses,
                   int i, int j) {
  return addresses[i] < addresses[j] + bytesAt(&p->specs[j], size) &&
         addresses[j] < addresses[i] + bytesAt(&p->specs[i], size);
}

// Whether no output shares memory with another tensor.
static int resultsApart(const Program *p, int64_t size,
                        const uint64_t *addresses) {
  for (int i = p->inputs; i < p->inputs + p->outputs; ++i)
    for (int j = 0; j < i; ++j)
      if (overlap(p, size, addresses, i, j))
        return 0;
  return 1;
}

// Whether no input that kernels write to shares memory with another one. It is
// looked at again where a tensor has moved.
static int updatesApart(Launcher *self, int64_t size,
                        const uint64_t *addresses) {
  const Program *p = &self->program;
  size_t bytes = sizeof(uint64_t) * (size_t)p->inputs;
  if (!self->updateCount ||
      (self->apartSize == size && !memcmp(self->apart, addresses, bytes)))
    return 1;
  for (int k = 0; k < self->updateCount; ++k)
    for (int i = 0; i < p->inputs; ++i)
      if (i != self->updates[k] &&
          overlap(p, size, addresses, self->updates[k], i))
        return 0;
  memcpy(self->apart, addresses, bytes);
  self->apartSize = size;
  return 1;
}

// ---- results

// A shape with as many rows as there are at a size.
static PyObject *shapeAt(PyObject *shape, int64_t rows) {
  Py_ssize_t rank = PyTuple_Size(shape);
  PyObject *found = PyTuple_New(rank);
  if (!found)
    return NULL;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject *extent =
        i ? PyTuple_GetItem(shape, i) : PyLong_FromLongLong(rows);
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
  PyObject *own =
      spec->each ? shapeAt(shape, spec->each * size) : (Py_INCREF(shape), shape);
  if (!own)
    return NULL;
  PyObject *found = PyObject_CallFunctionObjArgs(self->held[Empty], own,
                                                 strides, type, NULL);
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

static int resultsFit(Launcher *self, PyObject *results, int gradients,
                      int64_t size, uint64_t *addresses) {
  const Program *p = &self->program;
  if (PyTuple_Size(results) != p->outputs)
    return 0;
  for (int i = 0; i < p->outputs; ++i)
    if (!fits(self, PyTuple_GetItem(results, i), &p->specs[p->inputs + i],
              gradients, &size, &addresses[p->inputs + i]))
      return 0;
  return 1;
}

// ---- launching

// Makes the map of a parameter that of the tensor at its address. The driver's
// error code.
static int encodeMap(Launcher *self, int number, uint64_t address,
                     int64_t size) {
  const MapSpec *map = &self->program.map[number];
  struct MapKey *key = &self->resident[number];
  if (!map->each)
    size = 1;
  if (key->size == size && key->address == address)
    return 0;
  uint64_t shape[MapRank];
  uint32_t steps[MapRank];
  for (int i = 0; i < map->rank; ++i) {
    shape[i] = map->shape[i];
    steps[i] = 1;
  }
  if (map->each)
    shape[map->rank - 1] = map->each * (uint64_t)size;
  enum { NotInterleaved = 0, Lines128 = 2, Zeros = 0 };
  key->size = 0; // nobody's while it is written
  int code = self->encode(self->rooms + (size_t)MapBytes * number, map->type,
                          (uint32_t)map->rank, (void *)(uintptr_t)address,
                          shape, map->strides, map->box, steps, NotInterleaved,
                          map->swizzle, Lines128, Zeros);
  if (!code)
    *key = (struct MapKey){address, size};
  return code;
}

// All kernels, one after the other. Where the first one is dependent it may
// start `early`, before what was launched last has ended; the others always do.
static int launchKernels(Launcher *self, int64_t size, void *stream, int early,
                         int *failed) {
  const Program *p = &self->program;
  int code = 0;
  for (int i = 0; i < p->kernels && !code; ++i) {
    Kernel *kernel = &p->kernel[i];
    *failed = i;
    kernel->config.stream = stream;
    if (kernel->partBlocks)
      kernel->config.grid[0] =
          kernel->partBlocks * (unsigned)partsAt(kernel, size);
    Config config = kernel->config;
    if (kernel->early && !i && !early)
      --config.count; // that attribute is the last one
    code = self->launch(&config, kernel->function,
                        self->pointers + kernel->first, NULL);
  }
  return code;
}

// Whether there is a graph of these launches, made now where they were seen
// often enough.
static int isRecorded(Launcher *self, Recording *recording, int64_t size) {
  Recordings *all = &self->recordings;
  int mode, failed;
  if (!recording || recording->exec)
    return recording != NULL;
  if (recording->seen++ < all->needed)
    return 0;
  if (!beginRecording(all, &mode)) {
    int code = launchKernels(self, size, all->aside, 0, &failed);
    if (endRecording(all, recording, mode, code))
      return 1;
  }
  all->isOn = 0; // the driver makes none
  return 0;
}

static int encodeMaps(Launcher *self, const uint64_t *values, int64_t size,
                      int *failed) {
  const Program *p = &self->program;
  int code = 0;
  for (int i = 0; i < p->params && !code; ++i)
    if (p->param[i].map >= 0) {
      *failed = -1 - p->param[i].map;
      code = encodeMap(self, p->param[i].map, values[i], size);
    }
  return code;
}

// All launches. With `follows`, kernels were launched just before; if a graph is
// captured, the first one may start before they have ended. The driver's error code, and what failed: a kernel, their
// number for a graph of them all, or -1 less the number of a map.
static int launchAll(Launcher *self, const uint64_t *values, int64_t size,
                     void *stream, int follows, int *failed) {
  const Program *p = &self->program;
  int code = 0;
  pthread_mutex_lock(&self->mutex);
  Recording *recording = recordingOf(&self->recordings, values, size, stream);
  if (!recording || !recording->exec) {
    memcpy(self->slots, values, sizeof(uint64_t) * (size_t)p->params);
    code = encodeMaps(self, values, size, failed);
  }
  if (!code && isRecorded(self, recording, size)) {
    *failed = p->kernels;
    code = self->recordings.driver.start(recording->exec, stream);
  } else if (!code) {
    int early = follows && isCaptured(&self->recordings, stream);
    code = launchKernels(self, size, stream, early, failed);
  }
  pthread_mutex_unlock(&self->mutex);
  return code;
}

// The number that a function of Python returns. -1 on an error.
static int asked(PyObject *found, uint64_t *number) {
  if (!found)
    return -1;
  *number = PyLong_AsUnsignedLongLongMask(found);
  Py_DECREF(found);
  return *number == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

// Launches with all addresses found. -1 on an error, with the exception set.
static int launchOn(Launcher *self, int64_t size, int follows,
                    uint64_t *addresses) {
  const Program *p = &self->program;
  uint64_t stream, workspace = 0;
  PyObject *number = self->held[Number], *room = NULL;
  if (asked(PyObject_CallFunctionObjArgs(self->held[CurrentStream], number,
                                         NULL),
            &stream) < 0)
    return -1;
  if (self->held[Workspace] != Py_None) { // held until all is launched
    PyObject *key = PyLong_FromUnsignedLongLong(stream);
    room = key ? PyObject_CallFunctionObjArgs(self->held[Workspace], key, NULL)
               : NULL;
    Py_XDECREF(key);
    if (!room || asked(PyObject_CallMethodObjArgs(
                           room, self->held[NameAddress], NULL),
                       &workspace) < 0) {
      Py_XDECREF(room);
      return -1;
    }
  }
  for (int i = p->inputs + p->outputs; i < p->sources; ++i)
    addresses[i] = workspace + p->buffers[i];
  uint64_t *values = addresses + p->sources;
  for (int i = 0; i < p->params; ++i) {
    const Param *param = &p->param[i];
    values[i] = param->source == TheSize
                    ? (uint64_t)size
                    : addresses[param->source] + param->offset;
  }
  int code, failed = 0;
  Py_BEGIN_ALLOW_THREADS;
  code = launchAll(self, values, size, (void *)(uintptr_t)stream, follows,
                   &failed);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(room);
  if (code)
    Py_XDECREF(
        PyObject_CallFunction(self->held[Failed], "iiL", failed, code, size));
  return PyErr_Occurred() ? -1 : 0;
}

// Whether this thread can launch on the device, which is the current one. -1
// on an error.
static int isHere(Launcher *self) {
  uint64_t number;
  if (asked(PyObject_CallFunctionObjArgs(self->held[CurrentDevice], NULL),
            &number) < 0)
    return -1;
  if ((int64_t)number != PyLong_AsLongLong(self->held[Number]))
    return 0;
  PyObject *ready = PyObject_GetAttr(self->held[Ready], self->held[NameReady]);
  PyErr_Clear();
  Py_XDECREF(ready);
  return ready != NULL;
}

// The results as a new tuple; None, as a new reference, where something is not
// as it should be; NULL on an error.
static PyObject *run(Launcher *self, PyObject *tensors, PyObject *out,
                     int follows, uint64_t *addresses) {
  int64_t size = 0;
  int here = isHere(self);
  int given = out != Py_None;
  if (here < 0)
    return NULL;
  if (!here || length(tensors) != self->program.inputs ||
      (given && length(out) != self->program.outputs))
    Py_RETURN_NONE;
  PyObject *recorded =
      PyObject_CallFunctionObjArgs(self->held[Gradients], NULL);
  if (!recorded)
    return NULL;
  int gradients = recorded != Py_False;
  Py_DECREF(recorded);
  if (!inputsFit(self, tensors, gradients, &size, addresses) ||
      !updatesApart(self, size, addresses))
    Py_RETURN_NONE;
  PyObject *results = resultsOf(self, out, size);
  if (!results)
    return NULL;
  if (!resultsFit(self, results, given && gradients, size, addresses) ||
      (given && !resultsApart(&self->program, size, addresses))) {
    Py_DECREF(results);
    Py_RETURN_NONE;
  }
  if (launchOn(self, size, follows, addresses) < 0)
    Py_CLEAR(results);
  return results;
}

// call(tensors, out, follows): a tuple of results; None where a tensor does not
// fit.
static PyObject *call(PyObject *object, PyObject *const *args,
                      Py_ssize_t count) {
  Launcher *self = (Launcher *)object;
  int follows = count == 3 ? PyObject_IsTrue(args[2]) : -1;
  if (follows < 0) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError,
                      "expected tensors, results or None, and a truth value");
    return NULL;
  }
  size_t all = (size_t)(self->program.sources + self->program.params + 1);
  uint64_t few[96];
  uint64_t *addresses = all <= 96 ? few : malloc(sizeof(uint64_t) * all);
  if (!addresses)
    return PyErr_NoMemory();
  PyObject *found = run(self, args[0], args[1], follows, addresses);
  if (addresses != few)
    free(addresses);
  return found;
}

// recorded(): the number of graphs that were made; -1 where the driver makes
// none or none are wanted.
static PyObject *recorded(PyObject *object, PyObject *unused) {
  (void)unused;
  Launcher *self = (Launcher *)object;
  pthread_mutex_lock(&self->mutex);
  int made = self->recordings.isOn ? self->recordings.made : -1;
  pthread_mutex_unlock(&self->mutex);
  return PyLong_FromLong(made);
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
     "call(tensors, out, follows): the results, None where a tensor does not fit."},
    {"recorded", recorded, METH_NOARGS,
     "recorded(): how many graphs were made; -1 where there are none."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, make},
                              {Py_tp_dealloc, destroy},
                              {Py_tp_traverse, traverse},
                              {Py_tp_clear, clear},
                              {Py_tp_methods, methods},
                              {0, NULL}};

static PyType_Spec description = {"mirage.runtime._launcher.Launcher",
                                  sizeof(Launcher), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  slots};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_launcher", .m_size = -1};

PyMODINIT_FUNC PyInit__launcher(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&description) : NULL;
  if (!type || PyModule_AddIntConstant(module, "VERSION", 4) < 0 ||
      PyModule_AddObject(module, "Launcher", type) < 0) {
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
  }
  return module;
}
