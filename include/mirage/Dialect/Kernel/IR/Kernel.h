//===- Kernel.h - the kernel dialect ----------------------------*- C++ -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNEL_H
#define MIRAGE_DIALECT_KERNEL_IR_KERNEL_H

#include "mirage/Dialect/Common/ScalarOps.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mirage/Dialect/Kernel/IR/KernelDialect.h.inc"
#include "mirage/Dialect/Kernel/IR/KernelEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mirage/Dialect/Kernel/IR/KernelAttrs.h.inc"
#include "mirage/Dialect/Kernel/IR/KernelOpInterfaces.h.inc"

namespace mirage::kernel {

/// Marks the terminator of a launch's body: it stores one tile for each result.
template <typename ConcreteType>
class LaunchTerminator : public mlir::OpTrait::TraitBase<ConcreteType, LaunchTerminator> {};

/// Each element of the result is a function of the operands' elements at its
/// index, dimensions of size 1 being repeated; the block op with the same name and the same
/// properties computes it on tiles.
template <typename ConcreteType>
class Elementwise : public mlir::OpTrait::TraitBase<ConcreteType, Elementwise> {};

/// Distances of neighbours along each dimension of a tensor in memory, in elements.
llvm::SmallVector<int64_t> getStrides(mlir::RankedTensorType tensor);

/// A divisor of the address of a tensor's first element, in bytes: at most 16.
int64_t getStartAlign(mlir::RankedTensorType tensor);

/// A divisor, in bytes, of the addresses of all rows of a tensor (along its last dimension), at
/// most 16; the size of an element if the elements of a row are not contiguous.
int64_t getRowAlign(mlir::RankedTensorType tensor);

} // namespace mirage::kernel

#define GET_OP_CLASSES
#include "mirage/Dialect/Kernel/IR/KernelOps.h.inc"

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNEL_H
