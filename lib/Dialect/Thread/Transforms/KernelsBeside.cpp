//===- KernelsBeside.cpp - kernels that may run at once -------------------===//

#include "KernelsBeside.h"

#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace mirage;

namespace {
/// The values of a graph that may share memory: views of each other, the parts of a join, and the
/// rows of an update with the updated tensor.
class Memories {
public:
  explicit Memories(kernel::GraphOp graph) {
    for (Operation &op : graph.getBody().front()) {
      for (Value value : op.getResults())
        same.insert(value.getAsOpaquePointer());
      if (!thread::isViewOfMemory(op))
        continue;
      auto update = dyn_cast<kernel::IndexCopyOp>(op);
      for (OpOperand &operand : op.getOpOperands())
        if (!update || operand.get() != update.getIndex())
          same.unionSets(op.getResult(0).getAsOpaquePointer(), operand.get().getAsOpaquePointer());
    }
  }

  /// Whether a kernel writes memory that another one touches.
  bool writesOf(kernel::InvokeOp kernel, kernel::InvokeOp other) {
    auto meets = [&](Value written, ValueRange touched) {
      return llvm::any_of(touched, [&](Value v) { return areSame(written, v); });
    };
    return llvm::any_of(kernel.getResults(), [&](Value written) {
      return meets(written, other.getOperands()) || meets(written, other.getResults());
    });
  }

private:
  bool areSame(Value a, Value b) {
    return a == b || same.isEquivalent(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }

  llvm::EquivalenceClasses<const void *> same;
};
} // namespace

bool thread::isViewOfMemory(Operation &op) {
  // By now, copies and other joins are separate kernels.
  return isa<kernel::ReshapeOp, kernel::SliceOp, kernel::ConcatOp, kernel::IndexCopyOp>(op);
}

llvm::DenseMap<Operation *, int64_t>
thread::kernelsBeside(kernel::GraphOp graph, llvm::function_ref<bool(kernel::InvokeOp)> mayBeLate) {
  Memories memories(graph);
  llvm::DenseMap<Operation *, int64_t> found;
  SmallVector<kernel::InvokeOp> running;
  for (Operation &op : graph.getBody().front()) {
    if (isViewOfMemory(op))
      continue;
    auto invoke = dyn_cast<kernel::InvokeOp>(op);
    bool isApart = invoke && !running.empty() && mayBeLate(invoke) &&
                   llvm::none_of(running, [&](kernel::InvokeOp other) {
                     return memories.writesOf(invoke, other) || memories.writesOf(other, invoke);
                   });
    if (isApart)
      found[invoke] = running.size();
    else
      running.clear();
    if (invoke)
      running.push_back(invoke);
  }
  return found;
}
