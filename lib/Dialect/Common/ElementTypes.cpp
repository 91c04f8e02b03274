//===- ElementTypes.cpp - what tiles hold of tensors ----------------------===//

#include "mirage/Dialect/Common/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mirage;

bool mirage::isEightBitFloat(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

Type mirage::getTileElement(Type element) {
  if (element.isInteger())
    return Float32Type::get(element.getContext());
  return isEightBitFloat(element) ? Float16Type::get(element.getContext()) : element;
}

Type mirage::getRoundedType(UnaryFn fn, MLIRContext *context) {
  switch (fn) {
  case UnaryFn::RoundE4M3:
    return Float8E4M3FNType::get(context);
  case UnaryFn::RoundE5M2:
    return Float8E5M2Type::get(context);
  default:
    return Type();
  }
}
