// What the launcher knows of others: how tensors are read (DLPack 1, as far as
// it is needed, https://dmlc.github.io/dlpack), and the driver's functions
// (cuda.h of CUDA 12 and later).

#ifndef MIRAGE_RUNTIME_NATIVE_INTERFACES_H
#define MIRAGE_RUNTIME_NATIVE_INTERFACES_H

#include <stdint.h>

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

typedef int (*LaunchFn)(const Config *, void *function, void **params, void **extra);

// Map, element type, rank, address, extents, strides (bytes), box, steps,
// interleave, swizzle, promotion in L2, what elements beyond the tensor are.
typedef int (*EncodeFn)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                        const uint32_t *, const uint32_t *, int, int, int, int);

// What a graph of launches is recorded and started with. Addresses in the order
// of `GraphFunctions` in fast.py.
typedef struct {
  int (*isCapturing)(void *stream, int *status);
  int (*exchangeMode)(int *mode); // of the calling thread
  int (*createStream)(void **stream, unsigned flags);
  int (*destroyStream)(void *stream);
  int (*begin)(void *stream, int mode);
  int (*end)(void *stream, void **graph);
  int (*instantiate)(void **exec, void *graph, unsigned long long flags);
  int (*start)(void *exec, void *stream);
  int (*destroyGraph)(void *graph);
  int (*destroyExec)(void *exec);
} GraphFunctions;

enum { GraphFunctionCount = 10 };
enum { ClusterDimension = 4, EarlyStart = 6, MapBytes = 128, MapRank = 5, MaxRank = 16 };

#endif // MIRAGE_RUNTIME_NATIVE_INTERFACES_H
