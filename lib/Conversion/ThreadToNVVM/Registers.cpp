//===- Registers.cpp - fragments as lists of values -----------------------===//

#include "Patterns.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mirage::thread;

static bool isPacked(FragmentType type) {
  return type.getElementType().getIntOrFloatBitWidth() == 16 && type.getNumRegisters() % 2 == 0;
}

SmallVector<Type> mirage::thread::getRegisterTypes(FragmentType type) {
  Type element = type.getElementType();
  if (isPacked(type))
    return SmallVector<Type>(type.getNumRegisters() / 2, VectorType::get({2}, element));
  return SmallVector<Type>(type.getNumRegisters(), element);
}

SmallVector<Value> mirage::thread::unpack(Emitter &e, FragmentType type, ValueRange values) {
  if (!isPacked(type))
    return SmallVector<Value>(values);
  SmallVector<Value> scalars;
  for (Value pair : values)
    for (int64_t i : {0, 1})
      scalars.push_back(e.createOrFold<vector::ExtractOp>(pair, i));
  return scalars;
}

SmallVector<Value> mirage::thread::pack(Emitter &e, FragmentType type, ValueRange scalars) {
  if (!isPacked(type))
    return SmallVector<Value>(scalars);
  auto pairType = VectorType::get({2}, type.getElementType());
  SmallVector<Value> pairs;
  for (size_t i = 0; i < scalars.size(); i += 2)
    pairs.push_back(
        e.createOrFold<vector::FromElementsOp>(pairType, ValueRange{scalars[i], scalars[i + 1]}));
  return pairs;
}
