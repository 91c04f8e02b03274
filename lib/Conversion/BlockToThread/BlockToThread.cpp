//===- BlockToThread.cpp - launches as GPU functions ----------------------===//

#include "Copies.h"
#include "DynamicTensors.h"
#include "InterleavedTensors.h"
#include "TileEmitter.h"

#include "mirage/Conversion/Passes.h"
#include "mirage/Dialect/Block/Analysis/Clusters.h"
#include "mirage/Dialect/Block/Analysis/LoopSchedule.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"

namespace mirage {
#define GEN_PASS_DEF_CONVERTBLOCKTOTHREAD
#include "mirage/Conversion/Passes.h.inc"
} // namespace mirage

using namespace mlir;
using namespace mirage;

/// Kernel parameters have at least two dimensions, so that every tile finds
/// dimensions for its rows and columns.
static MemRefType getParameterType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape()), strides = kernel::getStrides(tensor);
  while (shape.size() < 2) {
    strides.insert(strides.begin(), shape.empty() ? 1 : shape.front() * strides.front());
    shape.insert(shape.begin(), 1);
  }
  // A truth value is a byte.
  MLIRContext *context = type.getContext();
  Type element = tensor.getElementType();
  if (element.isInteger(1))
    element = IntegerType::get(context, 8);
  if (!tensor.getEncoding())
    return MemRefType::get(shape, element);
  return MemRefType::get(shape, element, StridedLayoutAttr::get(context, 0, strides));
}

namespace {
struct ConvertBlockToThread : mirage::impl::ConvertBlockToThreadBase<ConvertBlockToThread> {
  void runOnOperation() override {
    SmallVector<kernel::GraphOp> graphs(getOperation().getOps<kernel::GraphOp>());
    for (kernel::GraphOp graph : graphs)
      if (failed(convert(graph)))
        return signalPassFailure();
  }

private:
  /// Every tile states how it is held, and every matmul how warps share it.
  static LogicalResult checkInput(kernel::LaunchOp launch) {
    if (!launch.getSchedule())
      return launch.emitOpError("expected a schedule (#kernel.schedule), got none");
    if (failed(block::checkLayouts(launch)) || failed(checkPlaces(launch)))
      return failure();
    if (int64_t cluster = launch.getSchedule()->getCluster(); cluster > 1)
      if (std::optional<std::string> why = block::whyNoCluster(launch, cluster))
        return launch.emitOpError("cannot run in clusters of ")
               << cluster << " blocks: expected " << *why;
    WalkResult walk = launch.getBody().walk([](Operation *op) {
      if (auto matmul = dyn_cast<block::MatmulOp>(op); matmul && !matmul.getWarps()) {
        op->emitOpError("expected 'warps' (mirage-assign-layouts), got none");
        return WalkResult::interrupt();
      }
      if (failed(applySchedule(op)))
        return WalkResult::interrupt();
      if (op->hasAttr(block::kTurns) &&
          op->getParentOfType<kernel::LaunchOp>().getSchedule()->getResident()) {
        op->emitOpError("expected no turns in a launch of resident blocks");
        return WalkResult::interrupt();
      }
      auto load = dyn_cast<block::LoadOp>(op);
      if (load && isa<block::LoopOp>(op->getParentOp())) {
        thread::SharedType shared = block::getShared(load.getResult());
        if (shared && !shared.isRing()) {
          op->emitOpError("expected a ring in a loop (mirage-pipeline-loops), got ") << shared;
          return WalkResult::interrupt();
        }
      }
      return WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

  /// Warps of a block. With warpgroups these are whole groups of four: three
  /// idle warps join the one that copies, because registers are moved between
  /// groups, and so that groups of several blocks on one multiprocessor stay
  /// aligned.
  static int64_t getBlockWarps(kernel::LaunchOp launch) {
    kernel::ScheduleAttr schedule = *launch.getSchedule();
    return schedule.getWarps() + (schedule.usesWarpgroups() ? 4 : 0);
  }

  /// Brings the ops of scheduled loops into their order, if that is possible.
  static LogicalResult applySchedule(Operation *op) {
    if (auto loop = dyn_cast<block::LoopOp>(op); loop && block::isScheduled(loop)) {
      kernel::ScheduleAttr schedule = *op->getParentOfType<kernel::LaunchOp>().getSchedule();
      if (!schedule.usesWarpgroups())
        return op->emitOpError("expected a scheduled loop in a launch whose products warpgroups "
                               "compute");
      return block::applySchedule(loop, schedule.getWarps() / 4);
    }
    return success();
  }

  /// Whether a value is an output of the program, possibly in another shape.
  static bool isReturned(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      auto reshape = dyn_cast<kernel::ReshapeOp>(user);
      return isa<kernel::ReturnOp>(user) || (reshape && isReturned(reshape.getResult()));
    });
  }

  /// Whether a block is only an address: with the steps in its type, or
  /// contiguous and aligned as kernels expect tensors to be. Outputs have
  /// memory of their own.
  static bool isAddress(kernel::SliceOp slice) {
    constexpr int64_t kAlignmentBits = 16 * 8;
    if (cast<RankedTensorType>(slice.getResult().getType()).getEncoding())
      return true;
    std::optional<int64_t> start = slice.getContiguousStart();
    Type element = cast<RankedTensorType>(slice.getResult().getType()).getElementType();
    return start && *start * element.getIntOrFloatBitWidth() % kAlignmentBits == 0 &&
           !isReturned(slice.getResult());
  }

  /// Whether the launches that compute the row of an update store it to the tensor.
  static bool isStoredInPlace(kernel::IndexCopyOp copy) {
    Value joined = copy.getRow();
    while (auto reshape = joined.getDefiningOp<kernel::ReshapeOp>())
      joined = reshape.getInput();
    auto concat = joined.getDefiningOp<kernel::ConcatOp>();
    return concat ? llvm::all_of(concat.getInputs(), isPlaced) : isPlaced(copy.getRow());
  }

  static bool isInnerJoin(Operation *op) {
    auto concat = dyn_cast<kernel::ConcatOp>(op);
    return concat && isPartOfJoin(concat);
  }

  /// Whether an op becomes a kernel: a launch, or a copy of something that is
  /// not an address.
  static bool isKernel(Operation *op) {
    auto slice = dyn_cast<kernel::SliceOp>(op);
    auto concat = dyn_cast<kernel::ConcatOp>(op);
    return isa<kernel::LaunchOp>(op) || (concat && !isWrittenInParts(concat)) ||
           (slice && !isAddress(slice));
  }

  /// A name that is valid in PTX: letters, digits and underscores, no digit
  /// first.
  static std::string getIdentifier(StringRef name) {
    std::string identifier;
    if (name.empty() || llvm::isDigit(name.front()))
      identifier = "_";
    for (char c : name)
      identifier += llvm::isAlnum(c) ? c : '_';
    return identifier;
  }

  LogicalResult convert(kernel::GraphOp graph) {
    SmallVector<Operation *> ops, innerJoins;
    bool hasAlternatives = false;
    dynamic = DynamicTensors(graph);
    graph.walk([&](Operation *op) {
      if (isInnerJoin(op))
        innerJoins.push_back(op);
      else if (isKernel(op))
        ops.push_back(op);
      hasAlternatives |= isa<kernel::AlternativesOp>(op);
    });
    for (kernel::IndexCopyOp copy : graph.getOps<kernel::IndexCopyOp>())
      if (!isStoredInPlace(copy))
        return copy.emitOpError("expected a row that a launch computes and nothing else reads, "
                                "and a tensor and an index that are inputs of the graph, the "
                                "tensor's only use being this one (mirage-view-tensors)");
    if (hasAlternatives)
      return graph.emitOpError("expected no kernel.alternatives (mirage-select chooses)");
    if (ops.empty())
      return success();
    if (failed(dynamic.check(graph, isAddress)))
      return failure();
    getOperation()->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                            UnitAttr::get(&getContext()));
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(graph);
    SymbolTable symbols(getOperation());
    std::string prefix = getIdentifier(graph.getName());
    auto module = gpu::GPUModuleOp::create(builder, graph.getLoc(), prefix + "_kernels");
    symbols.insert(module);
    SmallVector<Kernel> kernels;
    for (auto [number, op] : llvm::enumerate(ops)) {
      std::string name = prefix + "_" + std::to_string(number);
      if (auto launch = dyn_cast<kernel::LaunchOp>(op)) {
        if (failed(checkInput(launch)))
          return failure();
        auto interleaved = findInterleaved(launch, isAddress);
        Kernel *known = llvm::find_if(kernels, [&](Kernel &kernel) {
          return areSameKernel(kernel.launch, launch) && kernel.interleaved == interleaved &&
                 dynamic.getNumbers(kernel.launch) == dynamic.getNumbers(launch);
        });
        if (known == kernels.end()) {
          kernels.push_back(convert(launch, module, name, interleaved));
          known = &kernels.back();
        }
        kernel::InvokeOp invoke = replaceWithInvoke(
            launch, launch->getOperands(), known->function, launch.getStartedBlocks(),
            32 * getBlockWarps(launch), known->tensorMaps, launch.getSchedule()->getCluster());
        dynamic.setSize(invoke, known->launch);
      } else if (failed(convertCopy(op, module, name))) {
        return failure();
      }
    }
    llvm::append_range(ops, llvm::reverse(innerJoins));
    for (Operation *op : ops)
      op->erase();
    if (graph.getForm())
      graph.setForm(kernel::Form::Thread);
    return success();
  }

  /// The kernel `name` of `module`, empty; `builder` is set to its body.
  gpu::GPUFuncOp createKernel(OpBuilder &builder, Location loc, gpu::GPUModuleOp module,
                              StringRef name, ArrayRef<Type> parameters, int64_t threads) {
    builder.setInsertionPointToEnd(module.getBody());
    auto function =
        gpu::GPUFuncOp::create(builder, loc, name, builder.getFunctionType(parameters, {}));
    function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
    ++numKernels;
    function.setKnownBlockSizeAttr(
        builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
    builder.setInsertionPointToStart(&function.getBody().front());
    return function;
  }

  /// A function, and the launch from which it was made.
  struct Kernel {
    kernel::LaunchOp launch;
    gpu::GPUFuncOp function;
    SmallVector<Attribute> tensorMaps;
    SmallVector<InterleavedTensor> interleaved;
  };

  /// Whether two launches do the same with tensors of the same types.
  static bool areSameKernel(kernel::LaunchOp first, kernel::LaunchOp second) {
    return llvm::equal(first->getOperandTypes(), second->getOperandTypes()) &&
           llvm::equal(first->getResultTypes(), second->getResultTypes()) &&
           first->getAttrDictionary() == second->getAttrDictionary() &&
           OperationEquivalence::isRegionEquivalentTo(&first.getBody(), &second.getBody(),
                                                      OperationEquivalence::IgnoreLocations);
  }

  /// Puts a call of `function` with as many blocks in place of `op`, which stays without uses.
  kernel::InvokeOp replaceWithInvoke(Operation *op, ValueRange operands, gpu::GPUFuncOp function,
                                     int64_t blocks, int64_t threads,
                                     ArrayRef<Attribute> tensorMaps = {}, int64_t cluster = 1) {
    OpBuilder builder(op);
    auto module = function->getParentOfType<gpu::GPUModuleOp>();
    auto callee = SymbolRefAttr::get(
        module.getNameAttr(), {FlatSymbolRefAttr::get(builder.getContext(), function.getName())});
    auto invoke = kernel::InvokeOp::create(
        builder, op->getLoc(), op->getResultTypes(), callee, operands,
        ArrayRef<int64_t>{blocks, 1, 1}, ArrayRef<int64_t>{threads, 1, 1}, /*shared=*/0,
        cluster > 1 ? builder.getDenseI64ArrayAttr({cluster, 1, 1}) : DenseI64ArrayAttr(),
        tensorMaps.empty() ? ArrayAttr() : builder.getArrayAttr(tensorMaps),
        /*dependent=*/false, /*beside=*/IntegerAttr(), kernel::DynamicAttr(), DenseI64ArrayAttr());
    for (auto [before, now] : llvm::zip_equal(op->getResults(), invoke->getResults()))
      dynamic.replace(before, now);
    op->replaceAllUsesWith(invoke->getResults());
    return invoke;
  }

  Kernel convert(kernel::LaunchOp launch, gpu::GPUModuleOp module, StringRef name,
                 ArrayRef<InterleavedTensor> interleaved) {
    OpBuilder builder(&getContext());
    SmallVector<Type> parameters;
    for (Type type : launch->getOperandTypes())
      parameters.push_back(getParameterType(type));
    for (auto [number, type] : llvm::enumerate(launch->getResultTypes())) {
      MemRefType parameter = getParameterType(type);
      kernel::PlaceAttr place = launch.getPlace(number);
      parameters.push_back(place ? getPlacedType(place, parameter.getElementType()) : parameter);
    }
    SmallVector<Attribute> tensorMaps;
    for (const TensorMapParameter &parameter : getTensorMaps(launch)) {
      parameters.push_back(parameter.type);
      tensorMaps.push_back(parameter.map);
    }
    SmallVector<int64_t> dynamicTensors = dynamic.getNumbers(launch);
    if (!dynamicTensors.empty())
      parameters.push_back(builder.getI32Type());
    int64_t threads = 32 * getBlockWarps(launch);
    gpu::GPUFuncOp function =
        createKernel(builder, launch.getLoc(), module, name, parameters, threads);
    for (auto [number, type] : llvm::enumerate(
             llvm::concat<const Type>(launch->getOperandTypes(), launch->getResultTypes())))
      if (auto tensor = cast<RankedTensorType>(type); tensor.getEncoding())
        function.setArgAttr(number, thread::kAlignAttr,
                            builder.getI64IntegerAttr(kernel::getStartAlign(tensor)));
    for (const InterleavedTensor &tensor : interleaved)
      function.setArgAttr(tensor.number, thread::kInterleavedAttr,
                          builder.getDenseI64ArrayAttr({tensor.base, tensor.elements}));
    ValueRange arguments = function.getArguments();
    if (!dynamicTensors.empty()) {
      function.setArgAttr(arguments.size() - 1, thread::kSizeAttr, builder.getUnitAttr());
      arguments = arguments.drop_back();
    }
    for (int64_t number : dynamicTensors)
      function.setArgAttr(number, thread::kUnitAttr,
                          builder.getI64IntegerAttr(*dynamic.getUnit(launch, number)));
    size_t numInputs = launch->getNumOperands(), numOutputs = launch->getNumResults();
    TileEmitter(launch, builder, arguments.take_front(numInputs),
                arguments.slice(numInputs, numOutputs), arguments.take_back(tensorMaps.size()),
                !dynamicTensors.empty())
        .run();
    gpu::ReturnOp::create(builder, launch.getLoc());
    return {launch, function, tensorMaps, llvm::to_vector(interleaved)};
  }

  LogicalResult convertCopy(Operation *op, gpu::GPUModuleOp module, StringRef name) {
    for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
      if (cast<RankedTensorType>(type).getElementType().isF64())
        return op->emitOpError("expected f16, bf16 or f32 elements, got ") << type;
    auto slice = dyn_cast<kernel::SliceOp>(op);
    CopyKernel copy = slice ? CopyKernel(slice) : CopyKernel(cast<kernel::ConcatOp>(op));
    if (std::optional<int64_t> row = copy.getTooLongRow())
      return op->emitOpError("expected fewer than 2^31 elements from the dimension that is joined "
                             "to the last one, got ")
             << *row;
    OpBuilder builder(&getContext());
    gpu::GPUFuncOp function = createKernel(builder, op->getLoc(), module, name,
                                           copy.getParameterTypes(), CopyKernel::numThreads);
    copy.emitBody(builder, op->getLoc(), function.getArguments());
    gpu::ReturnOp::create(builder, op->getLoc());
    replaceWithInvoke(op, copy.getSources(), function, copy.getNumBlocks(), CopyKernel::numThreads);
    return success();
  }

  /// Of the graph that is converted.
  DynamicTensors dynamic;
};
} // namespace
