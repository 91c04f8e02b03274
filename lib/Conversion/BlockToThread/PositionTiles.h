//===- PositionTiles.h - tiles that positions decide ------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_POSITIONTILES_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_POSITIONTILES_H

#include "mirage/Dialect/Block/IR/Block.h"

#include <optional>

namespace mirage {

/// A tile of whole numbers or truth values that follow from positions.
struct PositionTile {
  bool isTruth = false;
  /// No element is further from zero.
  int64_t most = 0;
};

/// Nullopt for all other tiles.
std::optional<PositionTile> getPositionTile(mlir::Value value);

/// The truth value of which `value` is the bias (0 where it is true, minus
/// infinity elsewhere), or null.
mlir::Value getBiasedTruth(mlir::Value value);

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_POSITIONTILES_H
