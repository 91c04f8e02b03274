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

#include "arguments.h"
#include "launches.h"
#include "results.h"

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
