//===- Thread.h - C API: types of the thread dialect ------------*- C++ -*-===//
//
// Constructors give null, with an error at the location, for bad parameters.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_C_THREAD_H
#define MIRAGE_C_THREAD_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Thread, thread);

/// The parts of a layout that have basis vectors.
typedef enum MirageLayoutPart {
  MirageLayoutPartRegister,
  MirageLayoutPartLane,
  MirageLayoutPartWarp,
} MirageLayoutPart;

// #thread.layout. Basis vectors are pairs of row and column, one after another.
MLIR_CAPI_EXPORTED bool mirageAttributeIsAThreadLayout(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirTypeID mirageThreadLayoutAttrGetTypeID(void);
MLIR_CAPI_EXPORTED MlirAttribute mirageThreadLayoutAttrGetChecked(
    MlirLocation location, intptr_t numRegister, const int32_t *reg, intptr_t numLane,
    const int32_t *lane, intptr_t numWarp, const int32_t *warp, const int32_t repeat[2]);
MLIR_CAPI_EXPORTED intptr_t mirageThreadLayoutAttrGetNumVectors(MlirAttribute attr,
                                                                MirageLayoutPart part);
MLIR_CAPI_EXPORTED void mirageThreadLayoutAttrGetVector(MlirAttribute attr, MirageLayoutPart part,
                                                        intptr_t index, int32_t vector[2]);
MLIR_CAPI_EXPORTED void mirageThreadLayoutAttrGetRepeat(MlirAttribute attr, int32_t repeat[2]);

// !thread.fragment.
MLIR_CAPI_EXPORTED bool mirageTypeIsAThreadFragment(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID mirageThreadFragmentTypeGetTypeID(void);
MLIR_CAPI_EXPORTED MlirType mirageThreadFragmentTypeGetChecked(MlirLocation location, int64_t rows,
                                                               int64_t cols, MlirType elementType,
                                                               MlirAttribute layout, bool partial);
MLIR_CAPI_EXPORTED int64_t mirageThreadFragmentTypeGetRows(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadFragmentTypeGetCols(MlirType type);
MLIR_CAPI_EXPORTED MlirType mirageThreadFragmentTypeGetElementType(MlirType type);
MLIR_CAPI_EXPORTED MlirAttribute mirageThreadFragmentTypeGetLayout(MlirType type);
MLIR_CAPI_EXPORTED bool mirageThreadFragmentTypeIsPartial(MlirType type);

// !thread.shared: two dimensions, or three for a ring.
MLIR_CAPI_EXPORTED bool mirageTypeIsAThreadShared(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID mirageThreadSharedTypeGetTypeID(void);
MLIR_CAPI_EXPORTED MlirType mirageThreadSharedTypeGetChecked(MlirLocation location, intptr_t rank,
                                                             const int64_t *shape,
                                                             MlirType elementType, int64_t swizzle,
                                                             int64_t pad);
MLIR_CAPI_EXPORTED intptr_t mirageThreadSharedTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadSharedTypeGetDim(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirType mirageThreadSharedTypeGetElementType(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadSharedTypeGetSwizzle(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadSharedTypeGetPad(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadSharedTypeGetTotalBytes(MlirType type);

// !thread.mbarrier.
MLIR_CAPI_EXPORTED bool mirageTypeIsAThreadMbarrier(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID mirageThreadMbarrierTypeGetTypeID(void);
MLIR_CAPI_EXPORTED MlirType mirageThreadMbarrierTypeGetChecked(MlirLocation location,
                                                               int64_t count);
MLIR_CAPI_EXPORTED int64_t mirageThreadMbarrierTypeGetCount(MlirType type);

// !thread.tensormap.
MLIR_CAPI_EXPORTED bool mirageTypeIsAThreadTensorMap(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID mirageThreadTensorMapTypeGetTypeID(void);
MLIR_CAPI_EXPORTED MlirType mirageThreadTensorMapTypeGetChecked(MlirLocation location,
                                                                intptr_t rank, const int64_t *box,
                                                                MlirType elementType,
                                                                int64_t swizzle);
MLIR_CAPI_EXPORTED intptr_t mirageThreadTensorMapTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadTensorMapTypeGetDim(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirType mirageThreadTensorMapTypeGetElementType(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageThreadTensorMapTypeGetSwizzle(MlirType type);

#ifdef __cplusplus
}
#endif

#endif // MIRAGE_C_THREAD_H
