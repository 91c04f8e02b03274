//===- ThreadDialect.cpp - registration of the thread dialect -------------===//

#include "mirage/Dialect/Thread/IR/Thread.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mirage::thread;

#include "mirage/Dialect/Thread/IR/ThreadDialect.cpp.inc"
#include "mirage/Dialect/Thread/IR/ThreadEnums.cpp.inc"
#include "mirage/Dialect/Thread/IR/ThreadOpInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "mirage/Dialect/Thread/IR/ThreadOps.cpp.inc"

void ThreadDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "mirage/Dialect/Thread/IR/ThreadOps.cpp.inc"
      >();
}

std::optional<int64_t> mirage::thread::getNumWarps(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp()) {
    if (auto role = dyn_cast<WarpsOp>(parent))
      return role.getCount();
    if (auto kernel = dyn_cast<gpu::GPUFuncOp>(parent)) {
      std::optional<ArrayRef<int32_t>> size = kernel.getKnownBlockSize();
      if (!size)
        return std::nullopt;
      auto packed = kernel->getAttrOfType<IntegerAttr>(kPackedAttr);
      return (*size)[0] / 32 / (packed ? packed.getInt() : 1);
    }
  }
  return std::nullopt;
}
