//===- DynamicTensors.h - tensors of a dynamic size -------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_DYNAMICTENSORS_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_DYNAMICTENSORS_H

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace mirage {

/// The tensors of a graph whose rows are in proportion to its dynamic size, in
/// the form that kernels see. Tensors of an op are numbered, operands first.
class DynamicTensors {
public:
  DynamicTensors() = default;
  explicit DynamicTensors(kernel::GraphOp graph)
      : size(graph.getDynamicAttr()), values(graph.getDynamicValues()) {}

  /// Kernels of dynamic tensors are launches on tensors with consecutive rows,
  /// and no dynamic tensor bounds their loops.
  mlir::LogicalResult check(kernel::GraphOp graph,
                            llvm::function_ref<bool(kernel::SliceOp)> isAddress) const;

  /// The dynamic tensors of an op.
  llvm::SmallVector<int64_t> getNumbers(mlir::Operation *op) const;
  /// Elements of a dynamic tensor for each unit of the size, if its rows are
  /// consecutive.
  std::optional<int64_t> getUnit(mlir::Operation *op, int64_t number) const;
  /// Passes the size to a call of the kernel made from `launch`, and sets the
  /// number of blocks that it needs.
  void setSize(kernel::InvokeOp invoke, kernel::LaunchOp launch) const;
  /// `now` replaces `before`.
  void replace(mlir::Value before, mlir::Value now);

private:
  std::optional<std::pair<int64_t, int64_t>> getRows(kernel::LaunchOp launch) const;

  kernel::DynamicAttr size;
  llvm::DenseSet<mlir::Value> values;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_DYNAMICTENSORS_H
