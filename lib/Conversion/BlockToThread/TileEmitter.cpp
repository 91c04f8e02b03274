//===- TileEmitter.cpp - tile ops as thread ops ---------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Analysis/LayoutModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using block::getFragment;
using block::getShared;
using block::getTile;
using block::isScalar;
using block::TileType;
using thread::FragmentType;
using thread::LinearLayout;

TileEmitter::TileEmitter(kernel::LaunchOp launch, OpBuilder &builder, ValueRange inputs,
                         ValueRange outputs, ValueRange tensorMaps, bool isSized)
    : launch(launch), builder(builder), loc(launch.getLoc()), outputs(outputs),
      tensorMaps(tensorMaps), isSized(isSized), guards(launch) {
  for (auto [argument, input] : llvm::zip_equal(launch.getBody().getArguments(), inputs))
    tensors[argument] = input;
}

void TileEmitter::run() {
  announceStart();
  // Before there are roles: the one that copies takes as many steps as the others.
  if (!launch.getSchedule()->getResident())
    startPosition(gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x));
  emitPlacedRows();
  if (launch.getSchedule()->usesWarpgroups())
    emitRoles();
  else
    emitBody(launch.getBody().front());
}

/// Sets the position of a block, and reads the integers that bound its loops.
void TileEmitter::startPosition(Value number) {
  setPositions(number);
  for (auto scalar : launch.getBody().front().getOps<block::ScalarOp>())
    emitScalar(scalar);
}

void TileEmitter::emitBody(Block &body) {
  for (Operation &op : body)
    emit(&op);
}

void TileEmitter::emit(Operation *op) {
  Location outer = loc;
  loc = op->getLoc();
  const MaskGuard *guard = guards.lookup(op);
  if (guard && !guards.isSunk(op))
    emitGuarded(op, *guard);
  else if (!guards.isSunk(op))
    emitOp(op);
  loc = outer;
}

void TileEmitter::emitOp(Operation *op) {
  TypeSwitch<Operation *>(op)
      .Case<block::ConstantOp, block::ScalarOp>([](auto) {})
      .Case<block::LoadOp>([&](auto load) { emitLoad(load); })
      .Case<block::IotaOp>([&](auto iota) { emitIota(iota); })
      .Case<block::GatherOp>([&](auto gather) { emitGather(gather); })
      .Case<block::IntegersOp>([&](auto integers) { emitIntegers(integers); })
      .Case<block::MapIntegersOp>([&](auto map) { emitMapIntegers(map); })
      .Case<block::ReshapeOp>([&](block::ReshapeOp reshape) {
        if (getShared(reshape.getResult()) && sharedViews.count(reshape.getInput()))
          sharedViews[reshape.getResult()] = sharedViews[reshape.getInput()];
        else
          fragments[reshape.getResult()] = get(reshape.getInput());
      })
      .Case<block::UnaryOp>([&](auto unary) { emitUnary(unary); })
      .Case<block::BinaryOp>([&](auto binary) { emitBinary(binary); })
      .Case<block::CastOp>([&](block::CastOp cast) {
        fragments[cast.getResult()] =
            castTo(get(cast.getInput()), typeOf(cast.getResult()).getElementType());
      })
      .Case<block::MaskOp>([&](auto mask) { emitMask(mask); })
      .Case<block::ReduceOp>([&](auto reduce) { emitReduce(reduce); })
      .Case<block::ClusterReduceOp>([&](auto total) { emitClusterReduce(total); })
      .Case<block::CumulateOp>([&](auto cumulate) { emitCumulate(cumulate); })
      .Case<block::ArgsortOp>([&](auto argsort) { emitArgsort(argsort); })
      .Case<block::BroadcastOp>([&](block::BroadcastOp broadcast) {
        fragments[broadcast.getResult()] =
            getOperand(broadcast.getInput(), typeOf(broadcast.getResult()));
      })
      .Case<block::TransposeOp>([&](auto transpose) { emitTranspose(transpose); })
      .Case<block::ConvertLayoutOp>([&](auto convert) { emitConvertLayout(convert); })
      .Case<block::MatmulOp>([&](auto matmul) { emitMatmul(matmul); })
      .Case<block::RunningMaxOp>([&](auto running) { emitRunningMax(running); })
      .Case<block::LoopOp>([&](auto loop) { emitLoop(loop); })
      .Case<block::AccumulateOp>([](auto) {})
      .Case<block::StoreOp>([&](auto store) { emitStore(store); })
      .Default([](Operation *unknown) {
        llvm::report_fatal_error("expected an op with a lowering to the thread dialect, got '" +
                                 unknown->getName().getStringRef() + "'");
      });
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

Value TileEmitter::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value TileEmitter::constant(FragmentType type, double value) {
  return thread::ConstantOp::create(builder, loc, type, builder.getF64FloatAttr(value));
}

Value TileEmitter::binary(BinaryFn fn, Value lhs, Value rhs) {
  return thread::BinaryOp::create(builder, loc, lhs.getType(), fn, lhs, rhs);
}

Value TileEmitter::castTo(Value fragment, Type elementType) {
  auto type = cast<FragmentType>(fragment.getType());
  if (type.getElementType() == elementType)
    return fragment;
  return thread::CastOp::create(builder, loc, type.withElementType(elementType), fragment);
}

Value TileEmitter::broadcastTo(Value fragment, FragmentType type) {
  auto from = cast<FragmentType>(fragment.getType());
  SmallVector<int64_t> dims = block::getBroadcastDims(from.getShape(), type.getShape());
  const LinearLayout &layout = type.getLinearLayout();
  for (auto [number, dim] : llvm::enumerate(dims)) {
    // The second of two dimensions must still be repeated.
    LinearLayout next = number + 1 < dims.size() ? layout.reduce(dims[number + 1]) : layout;
    Type nextType = FragmentType::get(from.getElementType(), next, from.getPartial());
    fragment = thread::BroadcastOp::create(builder, loc, nextType, fragment,
                                           builder.getI64IntegerAttr(dim));
  }
  return fragment;
}

Value TileEmitter::convertTo(Value fragment, FragmentType type) {
  auto from = cast<FragmentType>(fragment.getType());
  bool isSum = from.getPartial() && !type.getPartial();
  SmallVector<int64_t> dims = block::getBroadcastDims(from.getShape(), type.getShape());
  FragmentType narrow =
      FragmentType::get(from.getElementType(), block::reduceLayout(type.getLinearLayout(), dims),
                        from.getPartial() && !isSum);
  if (isSum)
    fragment = thread::ReduceWarpsOp::create(builder, loc, narrow, fragment, IntegerAttr());
  else if (from != narrow)
    fragment = thread::ConvertLayoutOp::create(builder, loc, narrow, fragment, IntegerAttr());
  return broadcastTo(fragment, type);
}

Value TileEmitter::getOperand(Value value, FragmentType resultType) {
  if (auto scalar = value.getDefiningOp<block::ConstantOp>())
    return constant(resultType, scalar.getValue().convertToDouble());
  Value fragment = castTo(get(value), resultType.getElementType());
  return broadcastTo(fragment, resultType);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void TileEmitter::emitUnary(block::UnaryOp op) {
  FragmentType type = typeOf(op.getResult());
  fragments[op.getResult()] =
      thread::UnaryOp::create(builder, loc, type, op.getFn(), getOperand(op.getInput(), type));
}

void TileEmitter::emitBinary(block::BinaryOp op) {
  FragmentType type = typeOf(op.getResult());
  fragments[op.getResult()] =
      binary(op.getFn(), getOperand(op.getLhs(), type), getOperand(op.getRhs(), type));
}

void TileEmitter::emitMask(block::MaskOp op) {
  int64_t parts = 1;
  Value part = getPart(op.getAxes(), parts);
  Value offset = index(0);
  if (parts > 1)
    offset = arith::MulIOp::create(builder, loc, part,
                                   index(getTile(op.getInput()).getShape()[op.getDim()]));
  FragmentType type = typeOf(op.getResult());
  fragments[op.getResult()] =
      thread::MaskOp::create(builder, loc, type, get(op.getInput()), op.getDimAttr(), offset,
                             op.getExtentAttr(), op.getFillAttr());
}

void TileEmitter::emitReduce(block::ReduceOp op) {
  Type element = getTile(op.getResult()).getElementType();
  Value fragment = castTo(get(op.getInput()), element);
  bool isPartial = typeOf(op.getResult()).getPartial();
  for (int64_t dim : op.getDims()) {
    LinearLayout layout = cast<FragmentType>(fragment.getType()).getLinearLayout().reduce(dim);
    fragment = thread::ReduceOp::create(builder, loc, FragmentType::get(element, layout, isPartial),
                                        op.getFn(), fragment, dim, IntegerAttr());
  }
  fragments[op.getResult()] = fragment;
}

void TileEmitter::emitCumulate(block::CumulateOp op) {
  Value fragment = castTo(get(op.getInput()), getTile(op.getResult()).getElementType());
  fragments[op.getResult()] =
      thread::CumulateOp::create(builder, loc, fragment.getType(), op.getFn(), fragment,
                                 op.getDim(), op.getExclusive(), op.getReversed(), IntegerAttr());
}

void TileEmitter::emitArgsort(block::ArgsortOp op) {
  Value fragment = castTo(get(op.getInput()), getTile(op.getInput()).getElementType());
  auto type = cast<FragmentType>(fragment.getType());
  fragments[op.getResult()] = thread::ArgsortOp::create(
      builder, loc, FragmentType::get(builder.getI64Type(), type.getLinearLayout(), false),
      op.getDescending(), fragment, op.getDim(), getTile(op.getInput()).getShape()[op.getDim()],
      IntegerAttr());
}

void TileEmitter::emitTranspose(block::TransposeOp op) {
  if (getShared(op.getResult())) {
    SharedView view = sharedViews.lookup(op.getInput());
    view.transposed = !view.transposed;
    sharedViews[op.getResult()] = view;
    return;
  }
  Value fragment = get(op.getInput());
  auto type = cast<FragmentType>(fragment.getType());
  fragments[op.getResult()] = thread::TransposeOp::create(
      builder, loc, type.withLayout(type.getLinearLayout().transpose()), fragment);
}

void TileEmitter::emitConvertLayout(block::ConvertLayoutOp op) {
  if (getShared(op.getResult()))
    return emitKeptFactor(op);
  FragmentType type = typeOf(op.getResult());
  if (!getShared(op.getInput())) {
    fragments[op.getResult()] = convertTo(get(op.getInput()), type);
    return;
  }
  SharedView view = getSharedView(op.getInput());
  fragments[op.getResult()] = thread::LoadSharedOp::create(builder, loc, type, view.tile,
                                                           DenseI64ArrayAttr(), view.transposed);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Value TileEmitter::allocate(Value tile) {
  thread::SharedType type = getShared(tile);
  int64_t offset = llvm::alignTo(allocated, type.getAlignment());
  allocated = offset + type.getTotalBytes();
  return thread::SharedAllocOp::create(builder, tile.getLoc(), type,
                                       builder.getI64IntegerAttr(offset));
}

/// Writes a factor to the place where products read it:
///
///   barrier, if products of the block's last tile have read what was there
///   store; fence; barrier
void TileEmitter::emitKeptFactor(block::ConvertLayoutOp op) {
  Value tile = allocate(op.getResult());
  if (round)
    thread::BarrierOp::create(builder, loc);
  thread::StoreSharedOp::create(builder, loc, get(op.getInput()), tile, DenseI64ArrayAttr(), false);
  thread::FenceOp::create(builder, loc, thread::FenceKind::AsyncProxy);
  thread::BarrierOp::create(builder, loc);
  sharedViews[op.getResult()] = {tile, false};
}

void TileEmitter::commitCopies() {
  thread::CopyCommitOp::create(builder, loc);
  ++committed;
}

/// Waits for a group of copies and all before it. Later groups that are small
/// compared to these arrive with them, and are waited for as well: a wait costs
/// a barrier, and separates work that could run in parallel.
void TileEmitter::waitForCopies(int64_t group) {
  int64_t bytes = 0, later = 0, last = group;
  for (auto [tile, pending] : pendingGroup) {
    (pending <= group ? bytes : later) += cast<thread::SharedType>(tile.getType()).getTotalBytes();
    last = std::max(last, pending);
  }
  if (2 * later <= bytes)
    group = last;
  thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(committed - 1 - group));
  thread::BarrierOp::create(builder, loc);
  SmallVector<Value> usable;
  for (auto [value, pending] : pendingGroup)
    if (pending <= group)
      usable.push_back(value);
  for (Value value : usable)
    pendingGroup.erase(value);
}

/// Waits once for all of the values that are being copied.
void TileEmitter::waitForTiles(ValueRange values) {
  int64_t last = -1;
  for (Value value : values)
    if (auto view = sharedViews.find(value); view != sharedViews.end())
      if (auto pending = pendingGroup.find(view->second.tile); pending != pendingGroup.end())
        last = std::max(last, pending->second);
  if (last >= 0)
    waitForCopies(last);
}

SharedView TileEmitter::getSharedView(Value value) {
  SharedView view = sharedViews.lookup(value);
  auto pending = pendingGroup.find(view.tile);
  if (pending != pendingGroup.end())
    waitForCopies(pending->second);
  return view;
}
