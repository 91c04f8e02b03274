// The state of a launcher: what it holds of Python, the program, and what it
// knows of the calls so far.

#ifndef MIRAGE_RUNTIME_NATIVE_STATE_H
#define MIRAGE_RUNTIME_NATIVE_STATE_H

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
  PyObject_HEAD PyObject *held[HeldCount];
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
  } *resident;               // whose maps they are
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
                            : (void *)(self->rooms + (size_t)MapBytes * p->param[i].map);
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
  static const enum Held places[] = {Number,  CurrentDevice, CurrentStream, Gradients, Empty,
                                     Results, Ready,         Workspace,     Failed};
  const int count = (int)(sizeof(places) / sizeof(*places));
  if (PyTuple_Size(environment) != count)
    return invalid("expected what a call asks Python for");
  for (int i = 0; i < count; ++i)
    hold(self, places[i], PyTuple_GetItem(environment, i));
  PyObject *results = self->held[Results];
  if (!PyTuple_Check(results) || PyTuple_Size(results) != self->program.outputs)
    return invalid("expected the shapes of all outputs");
  self->held[NameGradient] = PyUnicode_InternFromString("requires_grad");
  self->held[NameReady] = PyUnicode_InternFromString("ready");
  self->held[NameAddress] = PyUnicode_InternFromString("data_ptr");
  return self->held[NameGradient] && self->held[NameReady] && self->held[NameAddress] ? 0 : -1;
}

#endif // MIRAGE_RUNTIME_NATIVE_STATE_H
