//===- ScalarFunctions.cpp - scalar functions in PTX ----------------------===//
//
// All in f32, without libdevice. Errors (relative, measured by the tests over
// the ranges that they state; u = 2^-24):
//
//   neg, abs, relu, square, add, sub, mul, max, min, sqrt   correctly rounded
//   mul by 1/n, n whole     x / n, correctly rounded (fma)
//   div by a constant       correctly rounded (fma), for results above 2^-100
//   div                     correctly rounded (div.rn)
//   reciprocal              2 ulp (div.full)
//   rsqrt                   2 ulp (rsqrt.approx)
//   exp                     (4 + 1.5 |x|) u: one multiplication and ex2.approx;
//                           results below 2^-126 become 0
//   exp(a - b), coarse      (4 + 1.5 |x| + 1.5 |b|) u: the exponent is one fma
//   log                     4 u, subnormal arguments included
//   log1p                   2 u, of the smallest arguments too
//   sigmoid, silu           as exp, plus 4 u; the limits at +-inf are exact
//   gelu_tanh               (12 + 3 |u|) u with tanh(u) = 2 sigmoid(2u) - 1
//   gelu                    (16 + z^2) u, z = x / sqrt 2: x erfc(-z) / 2
//   gelu, coarse            2^-16 + z^2 u
//   tanh                    6 u: a polynomial near 0, else by exp
//   pow                     (8 + 2 |b log2 a|) u; constant exponents 2, 3, 4, 0.5,
//                           -0.5, -1, 1, 0 are computed directly
//   floor, not, bias, keep, copysign, comparisons, logic, round_e4m3, round_e5m2: exact
//   floor_div, remainder    exact for whole numbers below 2^24
//   sin, cos                absolute 6 u: below |x| = 2^22 reduced by pi / 2 in three
//                           parts, from there on by bits of 2 / pi, then polynomials;
//                           NaN of infinities
//
// max, min and relu propagate NaN, as NumPy and PyTorch do. The polynomials are
// least-maximum fits made for this file.
//
//===----------------------------------------------------------------------===//

#include "ScalarFunctions.h"

#include "EightBits.h"

#include <cmath>

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
constexpr double kLog2E = 1.4426950408889634;

/// Horner's rule, lowest coefficient first.
Value polynomial(Emitter &e, Value x, ArrayRef<double> coefficients) {
  Value result = e.f32(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    result = e.fma(result, x, e.f32(coefficient));
  return result;
}

Value exp2(Emitter &e, Value x) {
  return e.intrinsic("llvm.nvvm.ex2.approx.ftz.f32", e.getF32Type(), {x});
}
Value reciprocalApprox(Emitter &e, Value x) {
  return e.intrinsic("llvm.nvvm.rcp.approx.ftz.f", e.getF32Type(), {x});
}
Value divide(Emitter &e, Value a, Value b) {
  return e.intrinsic("llvm.nvvm.div.full", e.getF32Type(), {a, b});
}
Value absolute(Emitter &e, Value x) { return e.intrinsic("llvm.fabs.f32", e.getF32Type(), {x}); }
Value withSignOf(Emitter &e, Value magnitude, Value sign) {
  return e.intrinsic("llvm.copysign.f32", e.getF32Type(), {magnitude, sign});
}

/// The integer whose reciprocal, rounded to f32, is `factor`; 0 where there is none, or where that
/// reciprocal is exact.
double countOf(double factor) {
  double count = std::round(1 / factor);
  bool isReciprocal = count >= 3 && count < 0x1p24 && float(1 / count) == float(factor);
  return isReciprocal && double(float(1 / count)) * count != 1 ? count : 0;
}

/// x / divisor, rounded once (P. Markstein, Computation of elementary functions on the IBM RISC
/// System/6000, 1990, theorem 7), where `factor` is 1 / divisor in f32; infinities, and exact
/// quotients, do not change.
Value quotientBy(Emitter &e, Value x, Value factor, double divisor) {
  Value product = e.fmul(x, factor);
  Value rest = e.fma(arith::NegFOp::create(e, product), e.f32(divisor), x);
  Value isOff = e.fcompare(arith::CmpFPredicate::ONE, rest, e.f32(0));
  return e.select(isOff, e.fma(rest, factor, product), product);
}

/// A sum times the reciprocal of a count is a mean: the mean of equal numbers must be that number.
Value multiplyByConstant(Emitter &e, Value x, Value factor, double constant) {
  double count = countOf(constant);
  return count == 0 ? e.fmul(x, factor) : quotientBy(e, x, factor, count);
}

/// The same holds for a sum divided by a count. The reciprocals of other divisors may not be
/// numbers of f32.
Value divideByConstant(Emitter &e, Value x, Value divisor, double constant) {
  double number = float(constant), size = std::abs(number);
  if (!(size > 0x1p-100 && size < 0x1p100))
    return divide(e, x, divisor);
  double factor = float(1 / number);
  if (factor * number == 1)
    return e.fmul(x, e.f32(factor));
  return quotientBy(e, x, e.f32(factor), number);
}

/// A difference of which the left side may be scaled by a constant, or null.
struct Difference {
  Value left, right;
  double scale = 1;

  explicit Difference(Value x) {
    auto difference = x.getDefiningOp<arith::SubFOp>();
    if (!difference)
      return;
    left = difference.getLhs();
    right = difference.getRhs();
    auto scaled = left.getDefiningOp<arith::MulFOp>();
    if (!scaled)
      return;
    if (auto factor = scaled.getRhs().getDefiningOp<arith::ConstantOp>()) {
      left = scaled.getLhs();
      scale = cast<FloatAttr>(factor.getValue()).getValueAsDouble();
    }
  }
};

Value exp(Emitter &e, Value x) {
  // The difference of a scaled value and another one is rounded once instead of twice.
  if (Difference of(x); of.left && of.scale != 1)
    x = e.fma(of.left, e.f32(of.scale), arith::NegFOp::create(e, of.right));
  return emitFarExp(e, x);
}

/// 1 / (1 + exp(-x)): exp overflows to infinity, its reciprocal is 0.
Value sigmoid(Emitter &e, Value x) {
  return reciprocalApprox(e, e.fadd(e.f32(1), exp2(e, e.fmul(x, e.f32(-kLog2E)))));
}

/// The bits of sqrt(1/2), where the exponents of a logarithm are cut.
constexpr int64_t kRootOfHalf = 0x3f3504f3;

/// k ln 2 + log(1 + f), for sqrt(1/2) <= 1 + f < sqrt(2).
Value logOfParts(Emitter &e, Value k, Value f) {
  Value square = e.fmul(f, f);
  Value tail = polynomial(e, f,
                          {0.3333331057647907, -0.24999986633189827, 0.20002219278226055,
                           -0.16669245305003805, 0.14218780416576202, -0.12384494270593883,
                           0.11872309245843585, -0.11788799381029375, 0.06915578281330509});
  // ln 2 in two parts, the first one exact in products with k.
  Value small = e.fma(e.fmul(square, f), tail, e.fmul(k, e.f32(-2.12194440054690583e-4)));
  Value result = e.fma(square, e.f32(-0.5), small);
  return e.fma(k, e.f32(0.693359375), e.fadd(f, result));
}

/// A logarithm where it is defined and finite, that of `x` elsewhere: `x` itself if it is infinite
/// or NaN, -inf at the `pole`, and NaN below.
Value whereDefined(Emitter &e, Value logarithm, Value x, double pole) {
  Value finite = e.fcompare(arith::CmpFPredicate::OLT, x, e.f32(INFINITY));
  Value result = e.select(finite, logarithm, x);
  Value inside = e.fcompare(arith::CmpFPredicate::UGT, x, e.f32(pole)); // or NaN
  Value isPole = e.fcompare(arith::CmpFPredicate::OEQ, x, e.f32(pole));
  return e.select(inside, result, e.select(isPole, e.f32(-INFINITY), e.f32(NAN)));
}

/// With x = 2^k m, sqrt(1/2) <= m < sqrt(2): k ln 2 + log(m).
Value log(Emitter &e, Value x) {
  Type i32 = e.getI32Type();
  Value subnormal = e.fcompare(arith::CmpFPredicate::OLT, x, e.f32(0x1p-126));
  Value scaled = e.select(subnormal, e.fmul(x, e.f32(0x1p23)), x);
  Value bits = e.bitcast(scaled, i32);
  Value exponent = e.createOrFold<arith::ShRSIOp>(e.sub(bits, e.i32(kRootOfHalf)), e.i32(23));
  Value mantissa = e.bitcast(e.sub(bits, e.shiftLeft(exponent, 23)), e.getF32Type());
  Value k = arith::SIToFPOp::create(e, e.getF32Type(), exponent);
  k = e.select(subnormal, e.fsub(k, e.f32(23)), k);
  return whereDefined(e, logOfParts(e, k, e.fsub(mantissa, e.f32(1))), x, /*pole=*/0);
}

/// log(1 + x): with k of the rounded sum, 2^-k (1 + x) - 1 is computed with one rounding. Where k
/// is not 0, 2^-k x is exact.
Value log1p(Emitter &e, Value x) {
  Type i32 = e.getI32Type(), f32 = e.getF32Type();
  Value bits = e.bitcast(e.fadd(x, e.f32(1)), i32);
  Value exponent = e.createOrFold<arith::ShRSIOp>(e.sub(bits, e.i32(kRootOfHalf)), e.i32(23));
  Value shift = e.shiftLeft(exponent, 23);
  Value scaled = e.bitcast(e.sub(e.bitcast(x, i32), shift), f32);
  Value fourOver = e.bitcast(e.sub(e.i32(0x40800000), shift), f32); // 4 2^-k is never subnormal
  Value f = e.fadd(scaled, e.fma(fourOver, e.f32(0.25), e.f32(-1)));
  Value k = arith::SIToFPOp::create(e, f32, exponent);
  return whereDefined(e, logOfParts(e, k, f), x, /*pole=*/-1);
}

/// Of which `normalTail` makes a value that is exact to f32.
constexpr double kTail[] = {-2.8258156776428223, 1.4446622133255005,  0.5162830948829651,
                            0.29702427983283997, -0.9196435809135437, 2.1400375366210938,
                            -4.687119960784912,  5.639540672302246,   -3.6966664791107178,
                            1.2745035886764526,  -0.18280601501464844};

/// Phi(-a) = erfc(a / sqrt 2) / 2 for a >= 0, as t 2^(P(t) - a^2 log2(e) / 2), t = 1 / (1 + a /
/// sqrt 8); `logarithm` is P, which decides how exact that is.
Value normalTail(Emitter &e, Value a, ArrayRef<double> logarithm) {
  Value t = reciprocalApprox(e, e.fma(a, e.f32(M_SQRT1_2 / 2), e.f32(1)));
  Value root = e.fmul(a, e.f32(std::sqrt(kLog2E / 2)));
  Value exponent = e.fma(arith::NegFOp::create(e, root), root, polynomial(e, t, logarithm));
  return e.fmul(t, exp2(e, exponent));
}

/// x Phi(x) = max(x, 0) - |x| Phi(-|x|). From 16 on the second term is 0, and it stays so for an
/// infinity.
Value gelu(Emitter &e, Value x, ArrayRef<double> logarithm) {
  Value a = arith::MinimumFOp::create(e, absolute(e, x), e.f32(16));
  Value tail = normalTail(e, a, logarithm);
  return e.fma(arith::NegFOp::create(e, a), tail, e.fmax(x, e.f32(0)));
}

/// x (1 + tanh(u)) / 2 = x sigmoid(2u).
Value geluTanh(Emitter &e, Value x) {
  double scale = 2 * std::sqrt(2 / M_PI);
  Value inner = e.fma(e.fmul(x, x), e.f32(scale * 0.044715), e.f32(scale));
  return e.fmul(x, sigmoid(e, e.fmul(x, inner)));
}

/// The truth value as a number, 1 or 0.
Value number(Emitter &e, Value condition) { return e.select(condition, e.f32(1), e.f32(0)); }

Value compareTo(Emitter &e, arith::CmpFPredicate predicate, Value a, Value b) {
  return number(e, e.fcompare(predicate, a, b));
}

Value isTrue(Emitter &e, Value x) { return e.fcompare(arith::CmpFPredicate::UNE, x, e.f32(0)); }

Value floorOf(Emitter &e, Value x) { return e.intrinsic("llvm.floor.f32", e.getF32Type(), {x}); }

/// floor(a / b), and what is left. The quotient of whole numbers below 2^24 is off by
/// one at most, which what is left shows.
std::pair<Value, Value> floorDivide(Emitter &e, Value a, Value b) {
  using P = arith::CmpFPredicate;
  Value quotient = floorOf(e, divide(e, a, b));
  Value rest = e.fma(arith::NegFOp::create(e, quotient), b, a);
  Value positive = e.fcompare(P::OGT, b, e.f32(0));
  Value below =
      e.select(positive, e.fcompare(P::OLT, rest, e.f32(0)), e.fcompare(P::OGT, rest, e.f32(0)));
  Value above = e.select(positive, e.fcompare(P::OGE, rest, b), e.fcompare(P::OLE, rest, b));
  Value change = e.select(below, e.f32(-1), number(e, above));
  return {e.fadd(quotient, change), e.fma(arith::NegFOp::create(e, change), b, rest)};
}

/// For finite |x| >= 2^22: quarter turns modulo 4, to the nearest, and what is left in
/// radians. x is m 2^k with m of 24 bits. Of the bits of 2 / pi those whose product with
/// 2^k is a multiple of 4 change nothing; the product of m with the 64 bits after them,
/// modulo 2^64, counts quarters modulo 4 in units of 2^-62, short by less than 2^-38.
std::pair<Value, Value> quartersOfLarge(Emitter &e, Value x) {
  // 2 / pi after three zeros, which stand left of its binary point for k = -1.
  constexpr int64_t kTwoOverPi[] = {0x145f306dc9c882a5, 0x3f84eafa3ea69bb8, 0x1b6c52b327887208};
  auto wide = [&](Value v) -> Value { return arith::ExtUIOp::create(e, e.getI64Type(), v); };
  auto up = [&](Value v, Value n) -> Value { return arith::ShLIOp::create(e, v, n); };
  auto down = [&](Value v, Value n) -> Value { return arith::ShRUIOp::create(e, v, n); };
  Value bits = e.bitcast(x, e.getI32Type());
  Value exponent = e.bitAnd(down(bits, e.i32(23)), 0xff);
  Value mantissa =
      wide(arith::OrIOp::create(e, e.bitAnd(bits, 0x7fffff), e.i32(0x800000)).getResult());
  Value start = wide(e.sub(exponent, e.i32(149)));
  Value inSecond = e.compare(arith::CmpIPredicate::uge, start, e.i64(64));
  Value high = e.select(inSecond, e.i64(kTwoOverPi[1]), e.i64(kTwoOverPi[0]));
  Value low = e.select(inSecond, e.i64(kTwoOverPi[2]), e.i64(kTwoOverPi[1]));
  Value shift = e.bitAnd(start, 63);
  Value window =
      arith::OrIOp::create(e, up(high, shift), down(down(low, e.i64(1)), e.sub(e.i64(63), shift)));
  Value product = arith::MulIOp::create(e, mantissa, window);
  Value isNegative = e.compare(arith::CmpIPredicate::slt, bits, e.i32(0));
  product = e.select(isNegative, e.sub(e.i64(0), product), product);
  Value quarters = down(e.add(product, e.i64(int64_t(1) << 61)), e.i64(62));
  Value rest = e.sub(product, up(quarters, e.i64(62)));
  Value asNumber = arith::SIToFPOp::create(e, e.getF32Type(), quarters);
  Value angle = arith::SIToFPOp::create(e, e.getF32Type(), rest);
  return {asNumber, e.fmul(angle, e.f32(std::ldexp(M_PI / 2, -62)))};
}

/// sin(x), or cos(x) as the sine a quarter further.
Value sine(Emitter &e, Value x, bool isCosine) {
  Value quarters = e.intrinsic("llvm.rint.f32", e.getF32Type(), {e.fmul(x, e.f32(2 / M_PI))});
  Value rest = x;
  for (double part : {-1.57079601287841796875, -3.1391647326017846e-7, -5.390302529957764e-15})
    rest = e.fma(quarters, e.f32(part), rest);
  Value isNear = e.fcompare(arith::CmpFPredicate::OLT, absolute(e, x), e.f32(1 << 22));
  auto [farQuarters, farRest] = quartersOfLarge(e, x);
  quarters = e.select(isNear, quarters, farQuarters);
  rest = e.select(isNear, rest, farRest);
  if (isCosine)
    quarters = e.fadd(quarters, e.f32(1));
  Value square = e.fmul(rest, rest);
  Value odd = polynomial(e, square, {-1.66666672e-1, 8.33338592e-3, -1.98559923e-4, 2.86567956e-6});
  odd = e.fma(odd, e.fmul(rest, square), rest);
  Value even = polynomial(e, square, {1.0, -5.0e-1, 4.16666567e-2, -1.38877297e-3, 2.44677067e-5});
  // Which quarter of the circle: 0 to 3.
  Value turns = floorOf(e, e.fmul(quarters, e.f32(0.25)));
  Value quarter = e.fma(turns, e.f32(-4), quarters);
  auto is = [&](double which) {
    return e.fcompare(arith::CmpFPredicate::OEQ, quarter, e.f32(which));
  };
  Value magnitude = e.select(arith::OrIOp::create(e, is(1), is(3)), even, odd);
  Value isNegative = e.fcompare(arith::CmpFPredicate::OGE, quarter, e.f32(2));
  Value result = e.select(isNegative, arith::NegFOp::create(e, magnitude), magnitude);
  Value isFinite = e.fcompare(arith::CmpFPredicate::OLT, absolute(e, x), e.f32(INFINITY));
  return e.select(isFinite, result, e.f32(NAN));
}

Value tanh(Emitter &e, Value x) {
  Value magnitude = absolute(e, x);
  Value square = e.fmul(x, x);
  Value series = polynomial(e, square,
                            {-0.333332628798231, 0.1333089970914887, -0.05369296451873097,
                             0.02048330652400912, -0.005528624595001196});
  Value near = e.fma(e.fmul(series, square), x, x);
  Value grown = e.fadd(exp2(e, e.fmul(magnitude, e.f32(2 * kLog2E))), e.f32(1));
  Value far = withSignOf(e, e.fma(e.f32(-2), reciprocalApprox(e, grown), e.f32(1)), x);
  Value isNear = e.fcompare(arith::CmpFPredicate::OLT, magnitude, e.f32(0.65));
  return e.select(isNear, near, far);
}

/// |a|^b, negative where a is and b is odd; NaN where a is negative and b is not
/// whole.
Value power(Emitter &e, Value a, Value b) {
  Value magnitude = exp(e, e.fmul(b, log(e, absolute(e, a))));
  Value whole =
      e.fcompare(arith::CmpFPredicate::OEQ, b, e.intrinsic("llvm.floor.f32", e.getF32Type(), {b}));
  Value half = e.fmul(b, e.f32(0.5));
  Value even = e.fcompare(arith::CmpFPredicate::OEQ, half,
                          e.intrinsic("llvm.floor.f32", e.getF32Type(), {half}));
  Value negated = arith::NegFOp::create(e, magnitude);
  Value signedPower = e.select(whole, e.select(even, magnitude, negated), e.f32(NAN));
  Value negative = e.fcompare(arith::CmpFPredicate::OLT, a, e.f32(0));
  Value result = e.select(negative, signedPower, magnitude);
  // 0 * inf: anything to the 0, and 1 to anything, are 1.
  Value one = e.f32(1);
  Value isOne = arith::OrIOp::create(e, e.fcompare(arith::CmpFPredicate::OEQ, b, e.f32(0)),
                                     e.fcompare(arith::CmpFPredicate::OEQ, a, one));
  return e.select(isOne, one, result);
}

/// Exponents that need no logarithm; null for the others.
Value constantPower(Emitter &e, Value a, double exponent) {
  if (exponent == 0)
    return e.f32(1);
  if (exponent == 1)
    return a;
  if (exponent == 0.5)
    return emitUnary(e, UnaryFn::Sqrt, a);
  if (exponent == -0.5)
    return emitUnary(e, UnaryFn::Rsqrt, a);
  if (exponent == -1)
    return emitUnary(e, UnaryFn::Reciprocal, a);
  if (exponent != 2 && exponent != 3 && exponent != 4)
    return {};
  Value square = e.fmul(a, a);
  if (exponent == 2)
    return square;
  return e.fmul(square, exponent == 3 ? a : square);
}
} // namespace

/// Where many differences have the same right side, its product with the constant is computed once.
Value mirage::thread::emitCoarseExp(Emitter &e, Value x) {
  Difference of(x);
  if (!of.left)
    return exp(e, x);
  Value right = arith::NegFOp::create(e, e.fmul(of.right, e.f32(kLog2E)));
  return exp2(e, e.fma(of.left, e.f32(of.scale * kLog2E), right));
}

Value mirage::thread::emitFarExp(Emitter &e, Value x) { return exp2(e, e.fmul(x, e.f32(kLog2E))); }

Value mirage::thread::emitCoarseGelu(Emitter &e, Value x) {
  return gelu(e, x,
              {-2.8272335529327393, 1.468683123588562, 0.36708399653434753, 0.6845489144325256,
               -1.023146152496338, 0.330074667930603});
}

Value mirage::thread::emitUnary(Emitter &e, UnaryFn fn, Value x) {
  switch (fn) {
  case UnaryFn::Neg:
    return arith::NegFOp::create(e, x);
  case UnaryFn::Abs:
    return absolute(e, x);
  case UnaryFn::Exp:
    return exp(e, x);
  case UnaryFn::Log:
    return log(e, x);
  case UnaryFn::Log1p:
    return log1p(e, x);
  case UnaryFn::Sqrt:
    return e.intrinsic("llvm.nvvm.sqrt.rn.f", e.getF32Type(), {x});
  case UnaryFn::Rsqrt:
    return e.intrinsic("llvm.nvvm.rsqrt.approx.f", e.getF32Type(), {x});
  case UnaryFn::Reciprocal:
    return divide(e, e.f32(1), x);
  case UnaryFn::Square:
    return e.fmul(x, x);
  case UnaryFn::Sigmoid:
    return sigmoid(e, x);
  case UnaryFn::Silu:
    return e.fmul(x, sigmoid(e, x));
  case UnaryFn::Gelu:
    return gelu(e, x, kTail);
  case UnaryFn::GeluTanh:
    return geluTanh(e, x);
  case UnaryFn::Relu:
    return e.fmax(x, e.f32(0));
  case UnaryFn::Tanh:
    return tanh(e, x);
  case UnaryFn::Not:
    return compareTo(e, arith::CmpFPredicate::OEQ, x, e.f32(0));
  case UnaryFn::Bias:
    return e.select(e.fcompare(arith::CmpFPredicate::OGT, x, e.f32(0)), e.f32(0), e.f32(-INFINITY));
  case UnaryFn::Floor:
    return floorOf(e, x);
  case UnaryFn::Sin:
    return sine(e, x, /*isCosine=*/false);
  case UnaryFn::Cos:
    return sine(e, x, /*isCosine=*/true);
  case UnaryFn::RoundE4M3:
    return roundToE4M3(e, x);
  case UnaryFn::RoundE5M2:
    return roundToE5M2(e, x);
  }
  llvm_unreachable("every case returns");
}

Value mirage::thread::emitBinary(Emitter &e, BinaryFn fn, Value a, Value b,
                                 std::optional<double> constant) {
  switch (fn) {
  case BinaryFn::Add:
    return e.fadd(a, b);
  case BinaryFn::Sub:
    return e.fsub(a, b);
  case BinaryFn::Mul:
    return constant ? multiplyByConstant(e, a, b, *constant) : e.fmul(a, b);
  case BinaryFn::Div:
    // A step function may depend on the last bit: other quotients are products with reciprocals.
    return constant ? divideByConstant(e, a, b, *constant) : arith::DivFOp::create(e, a, b);
  case BinaryFn::Pow:
    if (constant)
      if (Value result = constantPower(e, a, *constant))
        return result;
    return power(e, a, b);
  case BinaryFn::Max:
    return e.fmax(a, b);
  case BinaryFn::Min:
    return arith::MinimumFOp::create(e, a, b);
  case BinaryFn::Lt:
    return compareTo(e, arith::CmpFPredicate::OLT, a, b);
  case BinaryFn::Le:
    return compareTo(e, arith::CmpFPredicate::OLE, a, b);
  case BinaryFn::Eq:
    return compareTo(e, arith::CmpFPredicate::OEQ, a, b);
  case BinaryFn::Ne:
    return compareTo(e, arith::CmpFPredicate::UNE, a, b);
  case BinaryFn::And:
    return number(e, arith::AndIOp::create(e, isTrue(e, a), isTrue(e, b)));
  case BinaryFn::Or:
    return number(e, arith::OrIOp::create(e, isTrue(e, a), isTrue(e, b)));
  case BinaryFn::Xor:
    return number(e, arith::XOrIOp::create(e, isTrue(e, a), isTrue(e, b)));
  case BinaryFn::FloorDiv:
    return floorDivide(e, a, b).first;
  case BinaryFn::Remainder:
    return floorDivide(e, a, b).second;
  case BinaryFn::Keep:
    return e.select(isTrue(e, a), b, e.f32(0));
  case BinaryFn::CopySign:
    return withSignOf(e, a, b);
  }
  llvm_unreachable("every case returns");
}
