//===- ScalarOps.cpp - scalar functions shared by all dialects ------------===//

#include "mirage/Dialect/Common/ScalarOps.h"

#include "llvm/ADT/StringExtras.h"

#include "mirage/Dialect/Common/ScalarOpsEnums.cpp.inc"
