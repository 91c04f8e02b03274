//===- Block.h - the block dialect ------------------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCK_H
#define MIRAGE_DIALECT_BLOCK_IR_BLOCK_H

#include "mirage/Dialect/Common/IntegerFormula.h"
#include "mirage/Dialect/Common/ScalarFacts.h"
#include "mirage/Dialect/Common/ScalarOps.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mirage/Dialect/Block/IR/BlockDialect.h.inc"
#include "mirage/Dialect/Block/IR/BlockEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mirage/Dialect/Block/IR/BlockAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "mirage/Dialect/Block/IR/BlockTypes.h.inc"

namespace mirage::block {
/// The dimension of an op's result with which an operand's dimension is aligned, counted from the
/// last one.
unsigned getAlignedDim(mlir::Operation *op, unsigned operand, unsigned dim);
} // namespace mirage::block

#include "mirage/Dialect/Block/IR/BlockOpInterfaces.h.inc"
#define GET_OP_CLASSES
#include "mirage/Dialect/Block/IR/BlockOps.h.inc"

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCK_H
