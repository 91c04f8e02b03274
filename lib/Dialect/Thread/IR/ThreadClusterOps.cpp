//===- ThreadClusterOps.cpp - blocks that exchange fragments --------------===//

#include "Verifiers.h"

#include "mirage/Dialect/Thread/IR/Thread.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage::thread;

static int64_t getBytes(Type fragment) {
  auto type = cast<FragmentType>(fragment);
  return type.getRows() * type.getCols() * type.getElementType().getIntOrFloatBitWidth() / 8;
}

void ClusterGatherOp::build(OpBuilder &builder, OperationState &state, ValueRange inputs,
                            int64_t blocks) {
  SmallVector<Type> types;
  for (Value input : inputs)
    types.append(blocks, input.getType());
  build(builder, state, types, inputs, builder.getI64IntegerAttr(blocks), IntegerAttr());
}

LogicalResult ClusterGatherOp::verify() {
  constexpr int64_t mostBlocks = 16;
  int64_t blocks = getBlocks();
  if (blocks < 2 || blocks > mostBlocks || !llvm::isPowerOf2_64(blocks))
    return emitOpError("expected 2, 4, 8 or 16 blocks, got ") << blocks;
  if ((*this)->getParentOfType<LoopLikeOpInterface>())
    return emitOpError("expected to be outside of loops, in which others would write while a block "
                       "still reads");
  if (getInputs().empty() || int64_t(getNumResults()) != blocks * int64_t(getInputs().size()))
    return emitOpError("expected one result for each of the ")
           << blocks << " blocks and " << getInputs().size() << " operands, got "
           << getNumResults();
  Type element = cast<FragmentType>(getInputs().front().getType()).getElementType();
  for (auto [number, input] : llvm::enumerate(getInputs())) {
    if (cast<FragmentType>(input.getType()).getElementType() != element)
      return emitOpError("expected operands of one element type, got ")
             << element << " and " << input.getType();
    auto type = cast<FragmentType>(input.getType());
    if (failed(verifyNotPartial(*this, type, "the operands")))
      return failure();
    for (Type result : getResults().slice(number * blocks, blocks).getTypes())
      if (result != type)
        return emitOpError("expected results of the operand's type ") << type << ", got " << result;
  }
  return success();
}

int64_t ClusterGatherOp::getPlace(int64_t number) {
  int64_t bytes = 0;
  for (Type type : getInputs().take_front(number).getTypes())
    bytes += getBytes(type);
  return bytes;
}

int64_t ClusterGatherOp::getBlockBytes() { return getPlace(getInputs().size()); }

int64_t ClusterGatherOp::getScratchBytes() { return getBlocks() * getBlockBytes(); }
