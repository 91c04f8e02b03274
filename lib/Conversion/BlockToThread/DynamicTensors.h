//===- DynamicTensors.h - tensors of a dynamic size -------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_DYNAMICTENSORS_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_DYNAMICTENSORS_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace mirage {

/// The tensors of a graph whose rows are in proportion to its dynamic size, as
/// kernels see them. Tensors of an op are numbered, operands first.
class DynamicTensors {
public:
  DynamicTensors() = default;
  explicit DynamicTensors(kernel::GraphOp graph)
      : size(graph.getDynamicAttr()), values(graph.getDynamicValues()) {}

  /// Kernels of dynamic tensors are launches, of tensors whose rows follow each other, with loops
  /// that no dynamic tensor bounds.
  mlir::LogicalResult check(kernel::GraphOp graph,
                            llvm::function_ref<bool(kernel::SliceOp)> isAddress) const;

  /// The dynamic tensors of an op.
  llvm::SmallVector<int64_t> getNumbers(mlir::Operation *op) const;
  /// Elements of a dynamic tensor for each unit of the size, if its rows follow each other.
  std::optional<int64_t> getUnit(mlir::Operation *op, int64_t number) const;
  /// Gives a call of the kernel made of `launch` the size, and says how many blocks it needs.
  void setSize(kernel::InvokeOp invoke, kernel::LaunchOp launch) const;
  /// `now` is what `before` was.
  void replace(mlir::Value before, mlir::Value now);

private:
  std::optional<std::pair<int64_t, int64_t>> getRows(kernel::LaunchOp launch) const;

  kernel::DynamicAttr size;
  llvm::DenseSet<mlir::Value> values;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_DYNAMICTENSORS_H
