//===- Block.cpp - C API: types of the block dialect ----------------------===//

#include "mirage-c/Block.h"

#include "mirage/Dialect/Block/IR/Block.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

using namespace mirage::block;

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Block, block, mirage::block::BlockDialect)

static TileType tile(MlirType type) { return mlir::cast<TileType>(unwrap(type)); }

bool mirageTypeIsABlockTile(MlirType type) { return mlir::isa<TileType>(unwrap(type)); }
MlirTypeID mirageBlockTileTypeGetTypeID(void) { return wrap(TileType::getTypeID()); }
MlirType mirageBlockTileTypeGetChecked(MlirLocation location, intptr_t rank, const int64_t *shape,
                                       MlirType elementType, MlirAttribute layout) {
  mlir::Location loc = unwrap(location);
  return wrap(mlir::Type(TileType::getChecked(
      [loc] { return mlir::emitError(loc); }, loc.getContext(),
      llvm::ArrayRef<int64_t>(shape, rank), unwrap(elementType), unwrap(layout))));
}
intptr_t mirageBlockTileTypeGetRank(MlirType type) { return tile(type).getRank(); }
int64_t mirageBlockTileTypeGetDim(MlirType type, intptr_t dim) {
  return tile(type).getShape()[dim];
}
MlirType mirageBlockTileTypeGetElementType(MlirType type) {
  return wrap(tile(type).getElementType());
}
MlirAttribute mirageBlockTileTypeGetLayout(MlirType type) { return wrap(tile(type).getLayout()); }
int64_t mirageBlockTileTypeGetSizeInBytes(MlirType type) { return tile(type).getSizeInBytes(); }
