// Records repeated calls with the same addresses as graphs.
//
// The driver takes about as long for each launch of a kernel as the rest of a
// call takes. Therefore a program of several kernels that is called repeatedly on
// a stream with the same addresses is recorded, and then started as one graph.
// A recording belongs to the stream, the size and the values of all
// parameters; calls with other addresses are launched kernel by kernel.
//
// A call never fails because of recording: if the driver refuses any step of it,
// no further recordings are made.

#ifndef MIRAGE_RUNTIME_NATIVE_RECORDINGS_H
#define MIRAGE_RUNTIME_NATIVE_RECORDINGS_H

#include "program.h"

#include <string.h>

enum {
  MostRecordings = 64,
  FirstNeeded = 3,   // calls that a recording follows
  LeastKernels = 3,  // of a program for which a graph takes less time
  NonBlocking = 1,   // a stream that does not wait for the default one
  RelaxedCapture = 2 // what other threads do does not concern the recording
};

typedef struct {
  void *exec; // NULL: not recorded
  void *stream;
  int64_t size;
  uint64_t hash, used;
  uint64_t *values; // of all parameters; NULL: the place is free
  unsigned seen;
} Recording;

typedef struct {
  GraphFunctions driver;
  int isOn;
  int params;
  void *aside; // the stream that is recorded, where nothing ever runs
  uint64_t calls;
  unsigned needed; // doubled when a graph gives its place to another one
  int made;
  Recording all[MostRecordings];
} Recordings;

// `functions` is empty where the driver has no graphs or none are wanted.
static int readRecordings(Recordings *self, PyObject *functions, const Program *program) {
  uint64_t found[GraphFunctionCount];
  Py_ssize_t count = PyTuple_Size(functions);
  if (count && count != GraphFunctionCount)
    return invalid("expected functions of graphs");
  for (Py_ssize_t i = 0; i < count; ++i) {
    found[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(functions, i));
    if (PyErr_Occurred())
      return -1;
  }
  self->params = program->params;
  self->needed = FirstNeeded;
  self->isOn = count && program->kernels >= LeastKernels;
  GraphFunctions *driver = &self->driver;
  void *places[] = {&driver->isCapturing,   &driver->exchangeMode, &driver->createStream,
                    &driver->destroyStream, &driver->begin,        &driver->end,
                    &driver->instantiate,   &driver->start,        &driver->destroyGraph,
                    &driver->destroyExec};
  for (Py_ssize_t i = 0; i < count; ++i)
    memcpy(places[i], &found[i], sizeof(void *));
  return 0;
}

static void forget(Recordings *self, Recording *recording) {
  if (recording->exec)
    self->driver.destroyExec(recording->exec); // after it has run
  free(recording->values);
  memset(recording, 0, sizeof(*recording));
}

static void freeRecordings(Recordings *self) {
  for (int i = 0; i < MostRecordings; ++i)
    forget(self, &self->all[i]);
  if (self->aside)
    self->driver.destroyStream(self->aside);
}

static uint64_t hashOf(const uint64_t *values, int count) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ values[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// Whether a graph is captured of what is launched on a stream; not where that is
// not known.
static int isCaptured(Recordings *self, void *stream) {
  int capturing = 0;
  return self->driver.isCapturing && !self->driver.isCapturing(stream, &capturing) && capturing;
}

// The place for calls with these values, a new one where they are new; NULL where
// a call has to be launched kernel by kernel.
static Recording *recordingOf(Recordings *self, const uint64_t *values, int64_t size,
                              void *stream) {
  int capturing = 0;
  if (!self->isOn || self->driver.isCapturing(stream, &capturing) || capturing)
    return NULL; // a graph that is being captured gets the kernels
  size_t bytes = sizeof(uint64_t) * (size_t)self->params;
  uint64_t hash = hashOf(values, self->params);
  Recording *oldest = &self->all[0];
  for (int i = 0; i < MostRecordings; ++i) {
    Recording *r = &self->all[i];
    if (r->values && r->hash == hash && r->stream == stream && r->size == size &&
        !memcmp(r->values, values, bytes)) {
      r->used = ++self->calls;
      return r;
    }
    if (r->used < oldest->used)
      oldest = r;
  }
  if (oldest->exec && self->needed < 1u << 20)
    self->needed *= 2;
  forget(self, oldest);
  oldest->values = malloc(bytes);
  if (!oldest->values)
    return NULL;
  memcpy(oldest->values, values, bytes);
  oldest->stream = stream;
  oldest->size = size;
  oldest->hash = hash;
  oldest->used = ++self->calls;
  return oldest;
}

// Begins to record what is launched on `aside`. The driver's error code.
static int beginRecording(Recordings *self, int *mode) {
  *mode = RelaxedCapture;
  int code = self->driver.exchangeMode(mode);
  if (code)
    return code;
  if (!self->aside)
    code = self->driver.createStream(&self->aside, NonBlocking);
  if (!code)
    code = self->driver.begin(self->aside, RelaxedCapture);
  if (code)
    self->driver.exchangeMode(mode);
  return code;
}

// Ends it, where `code` says how the launches went. 1 where there is a graph.
static int endRecording(Recordings *self, Recording *recording, int mode, int code) {
  void *graph = NULL, *exec = NULL;
  int ended = self->driver.end(self->aside, &graph);
  if (!code && !ended && graph && !self->driver.instantiate(&exec, graph, 0))
    recording->exec = exec;
  if (graph)
    self->driver.destroyGraph(graph);
  self->driver.exchangeMode(&mode);
  self->made += recording->exec != NULL;
  return recording->exec != NULL;
}

#endif // MIRAGE_RUNTIME_NATIVE_RECORDINGS_H
