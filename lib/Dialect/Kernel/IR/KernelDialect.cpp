//===- KernelDialect.cpp - the kernel dialect and its attributes ----------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>
#include <string>

using namespace mlir;
using namespace mirage::kernel;

#include "mirage/Dialect/Kernel/IR/KernelDialect.cpp.inc"
#include "mirage/Dialect/Kernel/IR/KernelEnums.cpp.inc"
#include "mirage/Dialect/Kernel/IR/KernelOpInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mirage/Dialect/Kernel/IR/KernelAttrs.cpp.inc"

void KernelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mirage/Dialect/Kernel/IR/KernelAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mirage/Dialect/Kernel/IR/KernelOps.cpp.inc"
      >();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t warps,
                                   int64_t stages, Engine engine, int64_t resident,
                                   int64_t cluster) {
  // A CUDA block has at most 1024 threads.
  if (warps < 1 || warps > 32)
    return emitError() << "expected 1 to 32 warps, got " << warps;
  if (engine == Engine::Warpgroup && (warps % 4 || warps > 28))
    return emitError() << "expected a multiple of 4 up to 28 warps beside the one that copies, got "
                       << warps;
  if (stages < 1)
    return emitError() << "expected at least 1 stage, got " << stages;
  if (resident < 0 || (resident && engine != Engine::Warpgroup))
    return emitError() << "expected resident blocks with engine = warpgroup alone, got "
                       << resident;
  // Larger ones than 8 are not portable; what needs whole rows is worth it.
  bool isPair = engine == Engine::Warpgroup;
  if (cluster < 1 || cluster > (isPair ? 8 : 16) || !llvm::isPowerOf2_64(cluster))
    return emitError() << "expected a cluster of " << (isPair ? "1, 2, 4 or 8" : "1, 2, 4, 8 or 16")
                       << " blocks, got " << cluster;
  if (resident % cluster)
    return emitError() << "expected whole clusters of " << cluster << " resident blocks, got "
                       << resident;
  return success();
}

LogicalResult DynamicAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t bound,
                                  ArrayRef<int64_t> tensors) {
  constexpr int64_t mostSize = std::numeric_limits<int32_t>::max();
  if (bound < 1 || bound > mostSize)
    return emitError() << "expected a bound from 1 to 2^31 - 1, got " << bound;
  if (tensors.empty())
    return emitError() << "expected at least one dynamic tensor, got none";
  for (auto [number, tensor] : llvm::enumerate(tensors))
    if (tensor < 0 || (number && tensor <= tensors[number - 1]))
      return emitError() << "expected the numbers of tensors in increasing order, got " << tensor
                         << (number ? " after " + std::to_string(tensors[number - 1]) : "");
  return success();
}
