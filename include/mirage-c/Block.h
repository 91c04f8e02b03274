//===- Block.h - C API: types of the block dialect --------------*- C++ -*-===//

#ifndef MIRAGE_C_BLOCK_H
#define MIRAGE_C_BLOCK_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Block, block);

// !block.tile. The layout may be the null attribute. Null, with an error at the
// location, for bad shapes and element types.
MLIR_CAPI_EXPORTED bool mirageTypeIsABlockTile(MlirType type);
MLIR_CAPI_EXPORTED MlirTypeID mirageBlockTileTypeGetTypeID(void);
MLIR_CAPI_EXPORTED MlirType mirageBlockTileTypeGetChecked(MlirLocation location, intptr_t rank,
                                                          const int64_t *shape,
                                                          MlirType elementType,
                                                          MlirAttribute layout);
MLIR_CAPI_EXPORTED intptr_t mirageBlockTileTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageBlockTileTypeGetDim(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirType mirageBlockTileTypeGetElementType(MlirType type);
MLIR_CAPI_EXPORTED MlirAttribute mirageBlockTileTypeGetLayout(MlirType type);
MLIR_CAPI_EXPORTED int64_t mirageBlockTileTypeGetSizeInBytes(MlirType type);

#ifdef __cplusplus
}
#endif

#endif // MIRAGE_C_BLOCK_H
