//===- BlockAssembly.h - custom assembly of store and accumulate *- C++ -*-===//

#ifndef MIRAGE_LIB_DIALECT_BLOCK_IR_BLOCKASSEMBLY_H
#define MIRAGE_LIB_DIALECT_BLOCK_IR_BLOCKASSEMBLY_H

#include "mirage/Dialect/Block/IR/Block.h"
#include "mlir/IR/OpImplementation.h"

namespace mirage::block {

using UnresolvedOperands = llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>;

/// `%a [[], [n]], %s [[], []]`: tiles and their maps.
mlir::ParseResult parseStores(mlir::OpAsmParser &parser, UnresolvedOperands &tiles,
                              mlir::ArrayAttr &maps);
void printStores(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange tiles,
                 mlir::ArrayAttr maps);

/// `sum %o rescale %m, last %m : types rescale : types`: what a loop accumulates.
mlir::ParseResult parseAccumulators(mlir::OpAsmParser &parser, mlir::ArrayAttr &fns,
                                    UnresolvedOperands &values, UnresolvedOperands &rescales,
                                    mlir::DenseI64ArrayAttr &rescaled,
                                    llvm::SmallVectorImpl<mlir::Type> &valueTypes,
                                    llvm::SmallVectorImpl<mlir::Type> &rescaleTypes);
void printAccumulators(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr fns,
                       mlir::OperandRange values, mlir::OperandRange rescales,
                       mlir::DenseI64ArrayAttr rescaled, mlir::TypeRange valueTypes,
                       mlir::TypeRange rescaleTypes);

} // namespace mirage::block

#endif // MIRAGE_LIB_DIALECT_BLOCK_IR_BLOCKASSEMBLY_H
