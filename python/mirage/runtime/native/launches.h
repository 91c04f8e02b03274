// Calls the driver: tensor maps, kernels one after the other, or their graph.

#ifndef MIRAGE_RUNTIME_NATIVE_LAUNCHES_H
#define MIRAGE_RUNTIME_NATIVE_LAUNCHES_H

#include "state.h"

// Makes the map of a parameter that of the tensor at its address. The driver's
// error code.
static int encodeMap(Launcher *self, int number, uint64_t address, int64_t size) {
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
  int code = self->encode(self->rooms + (size_t)MapBytes * number, map->type, (uint32_t)map->rank,
                          (void *)(uintptr_t)address, shape, map->strides, map->box, steps,
                          NotInterleaved, map->swizzle, Lines128, Zeros);
  if (!code)
    *key = (struct MapKey){address, size};
  return code;
}

// All kernels, one after the other. Where the first one is dependent it may
// start `early`, before what was launched last has ended; the others always do.
static int launchKernels(Launcher *self, int64_t size, void *stream, int early, int *failed) {
  const Program *p = &self->program;
  int code = 0;
  for (int i = 0; i < p->kernels && !code; ++i) {
    Kernel *kernel = &p->kernel[i];
    *failed = i;
    kernel->config.stream = stream;
    if (kernel->partBlocks)
      kernel->config.grid[0] = kernel->partBlocks * (unsigned)partsAt(kernel, size);
    Config config = kernel->config;
    if (kernel->early && !i && !early)
      --config.count; // that attribute is the last one
    code = self->launch(&config, kernel->function, self->pointers + kernel->first, NULL);
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

static int encodeMaps(Launcher *self, const uint64_t *values, int64_t size, int *failed) {
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
// captured, the first one may start before they have ended. The driver's error
// code, and what failed: a kernel, their number for a graph of them all, or -1
// less the number of a map.
static int launchAll(Launcher *self, const uint64_t *values, int64_t size, void *stream,
                     int follows, int *failed) {
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

// Whether this thread can launch on the device, which is the current one. -1
// on an error.
static int isHere(Launcher *self) {
  uint64_t number;
  if (asked(PyObject_CallFunctionObjArgs(self->held[CurrentDevice], NULL), &number) < 0)
    return -1;
  if ((int64_t)number != PyLong_AsLongLong(self->held[Number]))
    return 0;
  PyObject *ready = PyObject_GetAttr(self->held[Ready], self->held[NameReady]);
  PyErr_Clear();
  Py_XDECREF(ready);
  return ready != NULL;
}

// Launches with all addresses found. -1 on an error, with the exception set.
static int launchOn(Launcher *self, int64_t size, int follows, uint64_t *addresses) {
  const Program *p = &self->program;
  uint64_t stream, workspace = 0;
  PyObject *number = self->held[Number], *room = NULL;
  if (asked(PyObject_CallFunctionObjArgs(self->held[CurrentStream], number, NULL), &stream) < 0)
    return -1;
  if (self->held[Workspace] != Py_None) { // held until all is launched
    PyObject *key = PyLong_FromUnsignedLongLong(stream);
    room = key ? PyObject_CallFunctionObjArgs(self->held[Workspace], key, NULL) : NULL;
    Py_XDECREF(key);
    if (!room ||
        asked(PyObject_CallMethodObjArgs(room, self->held[NameAddress], NULL), &workspace) < 0) {
      Py_XDECREF(room);
      return -1;
    }
  }
  for (int i = p->inputs + p->outputs; i < p->sources; ++i)
    addresses[i] = workspace + p->buffers[i];
  uint64_t *values = addresses + p->sources;
  for (int i = 0; i < p->params; ++i) {
    const Param *param = &p->param[i];
    values[i] =
        param->source == TheSize ? (uint64_t)size : addresses[param->source] + param->offset;
  }
  int code, failed = 0;
  Py_BEGIN_ALLOW_THREADS;
  code = launchAll(self, values, size, (void *)(uintptr_t)stream, follows, &failed);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(room);
  if (code)
    Py_XDECREF(PyObject_CallFunction(self->held[Failed], "iiL", failed, code, size));
  return PyErr_Occurred() ? -1 : 0;
}

#endif // MIRAGE_RUNTIME_NATIVE_LAUNCHES_H
