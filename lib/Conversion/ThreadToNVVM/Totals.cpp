//===- Totals.cpp - how elements are combined into totals -----------------===//

#include "Totals.h"

#include "mirage/Dialect/Common/ScalarFacts.h"

#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

Value mirage::thread::combine(Emitter &e, CumulateFn fn, Value a, Value b) {
  bool isInteger = a.getType().isInteger();
  switch (fn) {
  case CumulateFn::Sum:
    return isInteger ? e.add(a, b) : e.fadd(a, b);
  case CumulateFn::Max:
    return isInteger ? e.createOrFold<arith::MaxSIOp>(a, b) : e.fmax(a, b);
  case CumulateFn::Prod:
    return isInteger ? e.createOrFold<arith::MulIOp>(a, b) : e.fmul(a, b);
  }
  llvm_unreachable("unknown function");
}

Value mirage::thread::combine(Emitter &e, ReduceFn fn, Value a, Value b) {
  return combine(e, fn == ReduceFn::Sum ? CumulateFn::Sum : CumulateFn::Max, a, b);
}

Value mirage::thread::identity(Emitter &e, CumulateFn fn, Type element) {
  return e.constant(element, getIdentity(fn));
}
