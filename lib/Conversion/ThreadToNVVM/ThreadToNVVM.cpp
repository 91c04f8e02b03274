//===- ThreadToNVVM.cpp - thread ops to LLVM and NVVM ops -----------------===//

#include "GlobalAccess.h"
#include "Patterns.h"
#include "WarpNumber.h"

#include "mirage/Conversion/ThreadToNVVM/Passes.h"

#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mirage::thread;

namespace mirage {
#define GEN_PASS_DEF_CONVERTTHREADTONVVM
#include "mirage/Conversion/ThreadToNVVM/Passes.h.inc"
} // namespace mirage

namespace {
/// Alignment of the dynamic shared memory: that of tiles with a 128-byte swizzle.
constexpr int64_t kSharedAlign = 1024;

void addConversions(TypeConverter &converter) {
  converter.addConversion([](Type type) { return type; });
  converter.addConversion([](FragmentType type, SmallVectorImpl<Type> &types) {
    llvm::append_range(types, getRegisterTypes(type));
    return success();
  });
  auto pointer = [](MLIRContext *context, unsigned space) {
    return LLVM::LLVMPointerType::get(context, space);
  };
  converter.addConversion(
      [=](SharedType type) -> Type { return pointer(type.getContext(), kSharedSpace); });
  converter.addConversion(
      [=](MbarrierType type) -> Type { return pointer(type.getContext(), kSharedSpace); });
  converter.addConversion(
      [=](MemRefType type) -> Type { return pointer(type.getContext(), kGlobalSpace); });
  converter.addConversion(
      [=](TensorMapType type) -> Type { return pointer(type.getContext(), 0); });
}

/// Bytes of shared memory that a kernel uses: the largest end.
int64_t countSharedBytes(gpu::GPUFuncOp kernel) {
  int64_t bytes = 0;
  kernel.walk([&](Operation *op) {
    int64_t end = 0;
    if (auto alloc = dyn_cast<SharedAllocOp>(op))
      end = alloc.getOffset() + alloc.getType().getTotalBytes();
    else if (auto barriers = dyn_cast<MbarrierAllocOp>(op))
      end = barriers.getOffset() + barriers.getType().getCount() * 8;
    else if (auto scratch = dyn_cast<ScratchOpInterface>(op);
             scratch && scratch.getScratchBytes() && scratch.getScratchOffset())
      end = *scratch.getScratchOffset() + scratch.getScratchBytes();
    bytes = std::max(bytes, end);
  });
  return bytes;
}

/// Whether others may write a kernel's inputs while it runs. Such inputs must not be marked as free
/// of aliases: loads of memory that a kernel only reads count as invariant, and LLVM moves those
/// across waits.
bool waitsForOthers(gpu::GPUFuncOp kernel) {
  return kernel
      .walk([](Operation *op) {
        return isa<DependentWaitOp, WaitCounterOp>(op) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The alignment in bytes that LLVM may take for granted: a divisor of the
/// tensor's size, since it widens loads of three elements to aligned ones of
/// four, which must not reach beyond the tensor.
int64_t getUsableAlign(MemRefType type, int64_t align) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)) || ShapedType::isDynamic(offset))
    return align;
  int64_t elements = offset + 1;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides)) {
    if (ShapedType::isDynamic(size) || ShapedType::isDynamic(stride))
      return align;
    elements += (size - 1) * stride;
  }
  int64_t bytes = elements * type.getElementTypeBitWidth() / 8;
  return std::min(align, bytes & -bytes);
}

/// Facts in the types of parameters become attributes.
void setParameterAttributes(gpu::GPUFuncOp kernel) {
  Builder builder(kernel.getContext());
  bool noAlias = !waitsForOthers(kernel);
  SmallVector<int64_t> tensorMaps;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    if (isa<TensorMapType>(type))
      tensorMaps.push_back(i);
    if (auto tensor = dyn_cast<MemRefType>(type)) {
      auto align = kernel.getArgAttrOfType<IntegerAttr>(i, kAlignAttr);
      int64_t usable = getUsableAlign(tensor, align ? align.getInt() : 16);
      if (auto unit = kernel.getArgAttrOfType<IntegerAttr>(i, kUnitAttr)) {
        int64_t bytes = unit.getInt() * tensor.getElementTypeBitWidth() / 8;
        usable = std::min(usable, bytes & -bytes);
      }
      kernel.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                        builder.getI64IntegerAttr(usable));
      if (noAlias)
        kernel.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
      kernel.removeArgAttr(i, kAlignAttr);
    }
  }
  // For mirage-set-tensor-maps: gpu.func cannot express all of it.
  if (!tensorMaps.empty())
    kernel->setAttr(mirage::kTensorMapsAttr, builder.getDenseI64ArrayAttr(tensorMaps));
}

/// LLVM must not unroll loops by its own choice: bodies with tensor-core work are long, and values
/// that a copy of the body initialises while products are in flight would serialise `wgmma`. Short
/// loops of other work may be unrolled.
void limitUnrolling(gpu::GPUFuncOp kernel) {
  constexpr int64_t kShortLoop = 4;
  MLIRContext *context = kernel.getContext();
  auto unroll =
      LLVM::LoopUnrollAttr::get(context, BoolAttr::get(context, true), {}, {}, {}, {}, {}, {});
  auto annotation = LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {},
                                                  {}, {}, {}, {}, {}, {});
  kernel.walk([&](scf::ForOp loop) {
    std::optional<APInt> steps = loop.getStaticTripCount();
    bool isLong = !steps || steps->sgt(kShortLoop);
    bool isAsync = loop.getBody()
                       ->walk([](Operation *op) {
                         return isa<WgmmaOp, MbarrierWaitOp>(op) ? WalkResult::interrupt()
                                                                 : WalkResult::advance();
                       })
                       .wasInterrupted();
    if (isLong || isAsync)
      loop->setAttr(LLVM::BrOp::getLoopAnnotationAttrName(
                        OperationName(LLVM::BrOp::getOperationName(), context)),
                    annotation);
  });
}

/// Changing the number of registers requires a known initial number: that of one block per
/// multiprocessor.
void fixRegisterCount(gpu::GPUFuncOp kernel) {
  bool changes =
      kernel.walk([](SetMaxRegistersOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (changes)
    kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    IntegerAttr::get(IntegerType::get(kernel.getContext(), 32), 1));
}

/// A layout made for another number of warps would be silently wrong.
LogicalResult checkWarps(Operation *root) {
  WalkResult result = root->walk([](Operation *op) {
    if (!isa_and_nonnull<ThreadDialect>(op->getDialect()) || isa<WarpsOp, EndOp>(op))
      return WalkResult::advance();
    FailureOr<Role> role = getRole(op);
    if (failed(role))
      return WalkResult::interrupt();
    auto check = [&](Type type) {
      auto fragment = dyn_cast<FragmentType>(type);
      if (!fragment || fragment.getLinearLayout().getNumWarps() == role->numWarps)
        return true;
      op->emitOpError("expected layouts for ")
          << role->numWarps << " warps, got one for " << fragment.getLinearLayout().getNumWarps();
      return false;
    };
    bool fine =
        llvm::all_of(op->getOperandTypes(), check) && llvm::all_of(op->getResultTypes(), check);
    return fine ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Kernels of dynamic tensors take their size, once.
LogicalResult checkSizes(gpu::GPUModuleOp module) {
  for (auto kernel : module.getOps<gpu::GPUFuncOp>()) {
    unsigned dynamic = 0, sizes = 0;
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      auto unit = kernel.getArgAttrOfType<IntegerAttr>(i, kUnitAttr);
      if (unit && (!isa<MemRefType>(type) || unit.getInt() < 1))
        return kernel.emitOpError("expected 'thread.unit' to be a positive number of elements of "
                                  "a tensor, got ")
               << unit << " of " << type;
      dynamic += bool(unit);
      if (!kernel.getArgAttr(i, kSizeAttr))
        continue;
      ++sizes;
      if (!type.isInteger(32))
        return kernel.emitOpError("expected a size of type i32, got ") << type;
    }
    if (sizes != (dynamic ? 1 : 0))
      return kernel.emitOpError("expected one size where there are dynamic tensors, none where "
                                "there are not, got ")
             << sizes << " of " << dynamic << " tensors";
  }
  return success();
}

/// Parameters are interleaved with others of the same elements.
LogicalResult checkInterleaved(gpu::GPUModuleOp module) {
  for (auto kernel : module.getOps<gpu::GPUFuncOp>()) {
    ArrayRef<Type> types = kernel.getArgumentTypes();
    for (auto [i, type] : llvm::enumerate(types)) {
      auto known = kernel.getArgAttrOfType<DenseI64ArrayAttr>(i, kInterleavedAttr);
      if (!known)
        continue;
      ArrayRef<int64_t> numbers = known.asArrayRef();
      bool isKnown = numbers.size() == 2 && numbers[0] >= 0 && numbers[0] < int64_t(types.size());
      auto own = dyn_cast<MemRefType>(type);
      auto base = isKnown ? dyn_cast<MemRefType>(types[numbers[0]]) : MemRefType();
      if (!own || !base || own.getElementType() != base.getElementType())
        return kernel.emitOpError("expected 'thread.interleaved' to name a parameter with the same "
                                  "elements and a distance, got ")
               << known << " of " << type;
    }
  }
  return success();
}

/// Interleaved parameters are addressed from one of them, so that LLVM sees which elements are
/// neighbours.
void addressFromBase(gpu::GPUFuncOp kernel, ArrayRef<int64_t> elementBytes) {
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  for (unsigned i = 0, end = kernel.getNumArguments(); i < end; ++i) {
    auto known = kernel.getArgAttrOfType<DenseI64ArrayAttr>(i, kInterleavedAttr);
    if (known && known[0] != i) {
      Value own = kernel.getArgument(i), base = kernel.getArgument(known[0]);
      Emitter e(builder, kernel.getLoc(), Role());
      own.replaceAllUsesWith(e.offset(base, known[1] * elementBytes[i]));
    }
    kernel.removeArgAttr(i, kInterleavedAttr);
  }
}

/// Bytes of an element of each parameter that is a tensor, otherwise 0.
SmallVector<int64_t> getElementBytes(gpu::GPUFuncOp kernel) {
  return llvm::map_to_vector(kernel.getArgumentTypes(), [](Type type) -> int64_t {
    auto tensor = dyn_cast<MemRefType>(type);
    return tensor ? tensor.getElementTypeBitWidth() / 8 : 0;
  });
}

/// Roles become branches once nothing queries them any more.
void lowerRoles(gpu::GPUModuleOp module) {
  SmallVector<WarpsOp> roles;
  module.walk([&](WarpsOp role) { roles.push_back(role); });
  for (WarpsOp role : roles) {
    OpBuilder builder(role);
    Emitter e(builder, role.getLoc(), Role());
    Value inside =
        e.compare(arith::CmpIPredicate::ult, e.sub(getWarpNumber(role), e.i32(role.getFirst())),
                  e.i32(role.getCount()));
    auto branch = scf::IfOp::create(e, inside, /*withElseRegion=*/false);
    Block *body = &role.getBody().front();
    body->getTerminator()->erase();
    branch.thenBlock()->getOperations().splice(branch.thenBlock()->begin(), body->getOperations());
    role.erase();
  }
}

struct ConvertThreadToNVVMPass : mirage::impl::ConvertThreadToNVVMBase<ConvertThreadToNVVMPass> {
  void runOnOperation() override {
    gpu::GPUModuleOp module = getOperation();
    if (failed(checkWarps(module)))
      return signalPassFailure();
    if (failed(checkSizes(module)) || failed(checkInterleaved(module)) ||
        failed(annotateAccesses(module)))
      return signalPassFailure();
    OpBuilder builder(&getContext());
    for (auto kernel : module.getOps<gpu::GPUFuncOp>()) {
      if (!kernel.isKernel())
        continue;
      kernel->setAttr("thread.shared_bytes", builder.getI64IntegerAttr(countSharedBytes(kernel)));
      setParameterAttributes(kernel);
      limitUnrolling(kernel);
      fixRegisterCount(kernel);
      createWarpNumber(kernel);
    }
    SmallVector<SmallVector<int64_t>> elementBytes =
        llvm::map_to_vector(module.getOps<gpu::GPUFuncOp>(), getElementBytes);
    if (failed(convert(module)))
      return signalPassFailure();
    for (auto [kernel, bytes] : llvm::zip_equal(module.getOps<gpu::GPUFuncOp>(), elementBytes))
      addressFromBase(kernel, bytes);
    for (auto kernel : module.getOps<gpu::GPUFuncOp>())
      for (unsigned i = 0, end = kernel.getNumArguments(); i < end; ++i)
        for (StringRef name : {kUnitAttr, kSizeAttr})
          kernel.removeArgAttr(i, name);
    lowerRoles(module);
    addSharedSymbol(module);
  }

  LogicalResult convert(gpu::GPUModuleOp module) {
    MLIRContext *context = &getContext();
    TypeConverter converter;
    addConversions(converter);
    ConversionTarget target(*context);
    target.addLegalDialect<arith::ArithDialect, LLVM::LLVMDialect, NVVM::NVVMDialect,
                           vector::VectorDialect, scf::SCFDialect>();
    target.addIllegalDialect<ThreadDialect>();
    target.addIllegalOp<gpu::SubgroupIdOp>();
    target.addLegalOp<WarpsOp, EndOp>();
    target.addDynamicallyLegalOp<arith::SelectOp>(
        [&](arith::SelectOp select) { return converter.isLegal(select.getOperation()); });
    target.addDynamicallyLegalOp<gpu::GPUFuncOp>([&](gpu::GPUFuncOp kernel) {
      return converter.isSignatureLegal(kernel.getFunctionType()) &&
             converter.isLegal(&kernel.getBody());
    });
    target.markUnknownOpDynamicallyLegal([&](Operation *op) {
      return isa<gpu::GPUModuleOp, gpu::GPUFuncOp>(op) || converter.isLegal(op);
    });
    RewritePatternSet patterns(context);
    ScalarEmitters emitters = findScalarEmitters(module);
    populateCoarsePatterns(converter, patterns, emitters);
    populateFunctionOpInterfaceTypeConversionPattern<gpu::GPUFuncOp>(patterns, converter);
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    for (auto populate :
         {populateElementwisePatterns, populateIntegerPatterns, populateReshapePatterns,
          populateReducePatterns, populateCumulatePatterns, populateArgsortPatterns,
          populateGlobalPatterns, populateGatherPatterns, populateRowCopyPatterns,
          populateSharedPatterns, populateCopyPatterns, populateMmaPatterns, populateSyncPatterns,
          populateBulkPatterns, populateClusterPatterns, populateWgmmaPatterns,
          populateWarpNumberPatterns})
      populate(converter, patterns);
    return applyPartialConversion(module, target, std::move(patterns));
  }

  void addSharedSymbol(gpu::GPUModuleOp module) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
    LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/false,
                           LLVM::Linkage::External, kSharedSymbol, Attribute(), kSharedAlign,
                           kSharedSpace);
  }
};
} // namespace
