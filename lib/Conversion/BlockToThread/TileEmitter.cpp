//===- TileEmitter.cpp - tile ops as thread ops ---------------------------===//

#include "TileEmitter.h"

#include "mirage/Dialect/Block/Transforms/LayoutModel.h"

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
                         ValueRange outputs, ValueRange tensorMaps)
    : launch(launch), builder(builder), loc(launch.getLoc()), outputs(outputs),
      tensorMaps(tensorMaps) {
  for (auto [argument, input] : llvm::zip_equal(launch.getBody().getArguments(), inputs))
    tensors[argument] = input;
}

void TileEmitter::run() {
  Value rest = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  setPositions(rest, sharesTiles());
  startWithMostSteps();
  if (launch.getSchedule()->usesWarpgroups())
    emitRoles();
  else
    emitBody(launch.getBody().front());
}

/// Whether loops load tiles that blocks along one of the last two axes of the grid
/// share, and tiles that blocks along the other one share.
bool TileEmitter::sharesTiles() {
  auto names = launch.getGridNames().getValue();
  if (!launch.getSchedule()->usesWarpgroups() || names.size() < 2)
    return false;
  auto isShared = [&](Attribute axis) {
    return launch.getBody()
        .walk([&](block::LoadOp load) {
          bool cut = llvm::any_of(load.getMap(), [&](Attribute axes) {
            return llvm::is_contained(cast<ArrayAttr>(axes), axis);
          });
          return cut || load->getParentOp() == launch ? WalkResult::advance()
                                                      : WalkResult::interrupt();
        })
        .wasInterrupted();
  };
  return isShared(names.back()) && isShared(names[names.size() - 2]);
}

/// Splits the block's number into positions along the axes of the grid. The first
/// axis is the most significant digit. With `grouped`, blocks that run at the same
/// time form a near square of the last two axes, whose tiles share more of what L2
/// holds than those of a row do: rows of the square come in groups, within which
/// they are the fastest digit.
void TileEmitter::setPositions(Value number, bool grouped) {
  // About 16 x 8 tiles of 128 x 256 run at a time.
  constexpr int64_t groupRows = 16;
  auto names = launch.getGridNames().getValue();
  ArrayRef<int64_t> sizes = launch.getGridExtents();
  for (auto [name, extent] : llvm::zip_equal(names, sizes))
    extents[cast<StringAttr>(name).getValue()] = extent;
  auto divide = [&](Value value, Value by) -> Value {
    return arith::DivUIOp::create(builder, loc, value, by);
  };
  auto remainder = [&](Value value, Value by) -> Value {
    return arith::RemUIOp::create(builder, loc, value, by);
  };
  size_t left = names.size();
  if (grouped && left >= 2 && sizes[left - 2] > 1 && sizes[left - 1] > 1) {
    int64_t rows = sizes[left - 2], cols = sizes[left - 1];
    Value plane = left == 2 ? number : remainder(number, index(rows * cols));
    number = left == 2 ? Value() : divide(number, index(rows * cols));
    int64_t height = std::min(groupRows, rows);
    Value group = divide(plane, index(height * cols));
    Value within = remainder(plane, index(height * cols));
    Value first = arith::MulIOp::create(builder, loc, group, index(height));
    // The last group may be lower.
    Value heightHere = index(height);
    if (rows % height)
      heightHere = arith::MinUIOp::create(builder, loc, heightHere,
                                          arith::SubIOp::create(builder, loc, index(rows), first));
    Value row = arith::AddIOp::create(builder, loc, first, remainder(within, heightHere));
    position[cast<StringAttr>(names[left - 2]).getValue()] = row;
    position[cast<StringAttr>(names[left - 1]).getValue()] = divide(within, heightHere);
    left -= 2;
  }
  for (; left > 0; --left) {
    StringRef axis = cast<StringAttr>(names[left - 1]).getValue();
    position[axis] = left == 1 ? number : remainder(number, index(sizes[left - 1]));
    if (left > 1)
      number = divide(number, index(sizes[left - 1]));
  }
}

/// Blocks that take more steps of a loop than others start before them, so that
/// the last ones to run are short: an axis along which the steps grow is walked
/// backwards.
void TileEmitter::startWithMostSteps() {
  launch.getBody().walk([&](block::LoopOp loop) {
    if (!loop.getSteps())
      return WalkResult::advance();
    auto axes = loop.getStepAxesAttr().getValue();
    for (auto [number, axis] : llvm::enumerate(axes)) {
      StringRef name = cast<StringAttr>(axis).getValue();
      SmallVector<int64_t> at(axes.size(), 0);
      auto count = [&](int64_t place) {
        at[number] = place;
        auto [first, end] = loop.getStepRange(at);
        return end - first;
      };
      int64_t last = *launch.getGridExtent(name) - 1;
      if (count(last) > count(0))
        position[name] = arith::SubIOp::create(builder, loc, index(last), position[name]);
    }
    return WalkResult::interrupt();
  });
}

void TileEmitter::emitBody(Block &body) {
  for (Operation &op : body)
    emit(&op);
}

void TileEmitter::emit(Operation *op) {
  Location outer = loc;
  loc = op->getLoc();
  TypeSwitch<Operation *>(op)
      .Case<block::ConstantOp>([](auto) {})
      .Case<block::LoadOp>([&](auto load) { emitLoad(load); })
      .Case<block::IotaOp>([&](auto iota) { emitIota(iota); })
      .Case<block::GatherOp>([&](auto gather) { emitGather(gather); })
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
      .Case<block::BroadcastOp>([&](block::BroadcastOp broadcast) {
        fragments[broadcast.getResult()] =
            getOperand(broadcast.getInput(), typeOf(broadcast.getResult()));
      })
      .Case<block::TransposeOp>([&](auto transpose) { emitTranspose(transpose); })
      .Case<block::ConvertLayoutOp>([&](auto convert) { emitConvertLayout(convert); })
      .Case<block::MatmulOp>([&](auto matmul) { emitMatmul(matmul); })
      .Case<block::RunningMaxOp>([&](block::RunningMaxOp running) {
        fragments[running.getResult()] =
            binary(BinaryFn::Max, previousMax.lookup(running.getResult()),
                   castTo(get(running.getInput()), builder.getF32Type()));
      })
      .Case<block::LoopOp>([&](auto loop) { emitLoop(loop); })
      .Case<block::AccumulateOp>([](auto) {})
      .Case<block::StoreOp>([&](auto store) { emitStore(store); })
      .Default([](Operation *unknown) {
        llvm::report_fatal_error("expected an op with a lowering to the thread dialect, got '" +
                                 unknown->getName().getStringRef() + "'");
      });
  loc = outer;
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
  for (auto [position, dim] : llvm::enumerate(dims)) {
    // Of two dimensions the second is still to be repeated.
    LinearLayout next = position + 1 < dims.size() ? layout.reduce(dims[position + 1]) : layout;
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
  Value fragment = castTo(get(op.getInput()), builder.getF32Type());
  bool isPartial = typeOf(op.getResult()).getPartial();
  for (int64_t dim : op.getDims()) {
    LinearLayout layout = cast<FragmentType>(fragment.getType()).getLinearLayout().reduce(dim);
    fragment = thread::ReduceOp::create(builder, loc,
                                        FragmentType::get(builder.getF32Type(), layout, isPartial),
                                        op.getFn(), fragment, dim, IntegerAttr());
  }
  fragments[op.getResult()] = fragment;
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

Value TileEmitter::allocate(block::LoadOp load) {
  thread::SharedType type = getShared(load.getResult());
  int64_t offset = llvm::alignTo(allocated, type.getAlignment());
  allocated = offset + type.getTotalBytes();
  return thread::SharedAllocOp::create(builder, load.getLoc(), type,
                                       builder.getI64IntegerAttr(offset));
}

void TileEmitter::commitCopies() {
  thread::CopyCommitOp::create(builder, loc);
  ++committed;
}

void TileEmitter::waitForCopies(int64_t group) {
  thread::CopyWaitOp::create(builder, loc, builder.getI64IntegerAttr(committed - 1 - group));
  thread::BarrierOp::create(builder, loc);
  SmallVector<Value> usable;
  for (auto [value, pending] : pendingGroup)
    if (pending <= group)
      usable.push_back(value);
  for (Value value : usable)
    pendingGroup.erase(value);
}

SharedView TileEmitter::getSharedView(Value value) {
  SharedView view = sharedViews.lookup(value);
  auto pending = pendingGroup.find(view.tile);
  if (pending != pendingGroup.end())
    waitForCopies(pending->second);
  return view;
}
