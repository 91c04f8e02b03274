//===- EightBits.cpp - floats of 8 bits -----------------------------------===//
//
// f8E5M2 is the upper half of an f16. f8E4M3FN has one exponent bit less and no
// infinity: at the position of an f16's exponent and first digits, its bits are the number times
// 2^-8, except for NaN.
//
// Between 2^n and 2^(n+1) the numbers of a type with d digits after the point are 2^(n-d) apart.
// Numbers of f32 have this distance near c = 1.5 * 2^23 * 2^(n-d), so (x + c) - c is x rounded to a
// multiple of it, ties to even.
//
//===----------------------------------------------------------------------===//

#include "EightBits.h"

#include <cmath>

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

Type mirage::thread::getMemoryType(Type element) {
  return isEightBitFloat(element) ? IntegerType::get(element.getContext(), 8) : element;
}

/// |x|, limited to `limit` and rounded to `digits` after the point; below the exponent `least`
/// there are fewer. NaN stays NaN.
static Value roundMagnitude(Emitter &e, Value x, double limit, int64_t digits, int64_t least) {
  Value magnitude = e.intrinsic("llvm.fabs.f32", e.getF32Type(), {x});
  magnitude = arith::MinimumFOp::create(e, magnitude, e.f32(limit));
  Value exponent = e.bitAnd(e.bitcast(magnitude, e.getI32Type()), 0x7f800000);
  exponent = e.createOrFold<arith::MaxSIOp>(exponent, e.i32((127 + least) << 23));
  Value c = e.fmul(e.bitcast(exponent, e.getF32Type()), e.f32(std::ldexp(1.5, 23 - digits)));
  return e.fsub(e.fadd(magnitude, c), c);
}

static Value withSignOf(Emitter &e, Value magnitude, Value x) {
  return e.intrinsic("llvm.copysign.f32", e.getF32Type(), {magnitude, x});
}

Value mirage::thread::roundToE4M3(Emitter &e, Value x) {
  constexpr double largest = 448;
  return withSignOf(e, roundMagnitude(e, x, largest, /*digits=*/3, /*least=*/-6), x);
}

Value mirage::thread::roundToE5M2(Emitter &e, Value x) {
  constexpr double largest = 57344, beyond = 65536;
  Value rounded = roundMagnitude(e, x, beyond, /*digits=*/2, /*least=*/-14);
  Value overflows = e.fcompare(arith::CmpFPredicate::OGT, rounded, e.f32(largest));
  return withSignOf(e, e.select(overflows, e.f32(INFINITY), rounded), x);
}

Value mirage::thread::fromEightBits(Emitter &e, Value byte, Type eightBits, Type wide) {
  Type i16 = e.getIntegerType(16), f16 = e.getF16Type();
  auto number = [&](int64_t bits) -> Value {
    return arith::ConstantOp::create(e, e.getIntegerAttr(i16, bits));
  };
  Value bits = arith::ExtUIOp::create(e, i16, byte), result;
  if (isa<Float8E5M2Type>(eightBits)) {
    result = e.bitcast(e.shiftLeft(bits, 8), f16);
  } else {
    Value magnitude = e.bitAnd(bits, 0x7f);
    Value placed =
        arith::OrIOp::create(e, e.shiftLeft(magnitude, 7), e.shiftLeft(e.bitAnd(bits, 0x80), 8));
    result = arith::MulFOp::create(e, e.bitcast(placed, f16), e.constant(f16, 256));
    Value isNaN = e.compare(arith::CmpIPredicate::eq, magnitude, number(0x7f));
    result = e.select(isNaN, e.constant(f16, NAN), result);
  }
  return wide == f16 ? result : e.toF32(result);
}

Value mirage::thread::toEightBits(Emitter &e, Value x, Type eightBits) {
  Type i8 = e.getIntegerType(8), i16 = e.getIntegerType(16), f16 = e.getF16Type();
  if (isa<Float8E5M2Type>(eightBits)) {
    Value bits = e.bitcast(e.fromF32(roundToE5M2(e, x), f16), i16);
    return arith::TruncIOp::create(e, i8, e.shiftRight(bits, 8));
  }
  Value scaled = e.fmul(roundToE4M3(e, x), e.f32(std::ldexp(1.0, -8)));
  Value bits = e.bitcast(e.fromF32(scaled, f16), i16);
  Value byte = arith::OrIOp::create(e, e.bitAnd(e.shiftRight(bits, 7), 0x7f),
                                    e.bitAnd(e.shiftRight(bits, 8), 0x80));
  return arith::TruncIOp::create(e, i8, byte);
}

Value mirage::thread::fromMemory(Emitter &e, Value scalar, Type held, Type element) {
  if (held == element)
    return scalar;
  if (isEightBitFloat(held))
    return fromEightBits(e, scalar, held, element);
  if (element.isInteger())
    return arith::ExtSIOp::create(e, element, scalar);
  Value number = e.toF32(scalar);
  return element.isF32() ? number : e.fromF32(number, element);
}
