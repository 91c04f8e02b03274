//===- SetTensorMaps.cpp - tensor maps as kernel parameters ---------------===//

#include "mirage/Conversion/ThreadToNVVM/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace mirage {
#define GEN_PASS_DEF_SETTENSORMAPS
#include "mirage/Conversion/ThreadToNVVM/Passes.h.inc"
} // namespace mirage

/// Size and alignment of a CUtensorMap in bytes.
constexpr int64_t kTensorMapBytes = 128;
constexpr int64_t kTensorMapAlign = 64;

namespace {
struct SetTensorMapsPass : mirage::impl::SetTensorMapsBase<SetTensorMapsPass> {
  void runOnOperation() override {
    Builder builder(&getContext());
    auto bytes = LLVM::LLVMArrayType::get(builder.getI8Type(), kTensorMapBytes);
    for (auto kernel : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      auto maps = kernel->getAttrOfType<DenseI64ArrayAttr>(mirage::kTensorMapsAttr);
      if (!maps)
        continue;
      for (int64_t i : maps.asArrayRef()) {
        kernel.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
        kernel.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(kTensorMapAlign));
        kernel.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr());
      }
      kernel->removeAttr(mirage::kTensorMapsAttr);
    }
  }
};
} // namespace
