//===- ThreadInterfaces.td - interfaces of thread ops ----------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADINTERFACES_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADINTERFACES_TD

include "mlir/IR/OpBase.td"

/// An op whose instructions only chips with an ability have (`Needs.h`).
class Thread_Needs<string ability> : ParamNativeOpTrait<"Needs", "::mirage::Ability::" # ability> {
  let cppNamespace = "::mirage::thread";
}

def Thread_ScratchOpInterface : OpInterface<"ScratchOpInterface"> {
  let cppNamespace = "::mirage::thread";
  let description = [{
    An op that exchanges values between warps through an area of shared memory that
    nothing else uses at the same time. The whole block waits before the op writes to
    the area, and again before it reads from it, so scratch ops may share one area.
    Any other reuse of the area needs a barrier after the op. Ops that need no scratch
    memory for their layouts report 0 bytes and contain no barrier.
  }];
  let methods = [
    InterfaceMethod<"bytes of scratch memory that the op needs", "int64_t", "getScratchBytes">,
    InterfaceMethod<"byte offset of the scratch memory, or nullopt when it is not planned yet",
      "::std::optional<int64_t>", "getScratchOffset", (ins), [{}], [{
        if (::mlir::IntegerAttr attr = $_op.getScratchAttr())
          return attr.getInt();
        return ::std::nullopt;
      }]>,
    InterfaceMethod<"sets the byte offset of the scratch memory (a multiple of 16)", "void",
      "setScratchOffset", (ins "int64_t":$offset), [{}], [{
        $_op.setScratchAttr(::mlir::Builder($_op.getContext()).getI64IntegerAttr(offset));
      }]>];
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADINTERFACES_TD
