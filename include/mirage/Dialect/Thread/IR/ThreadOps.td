//===- ThreadOps.td - all ops of the thread dialect ------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADOPS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADOPS_TD

include "mirage/Dialect/Thread/IR/ThreadAsyncOps.td"
include "mirage/Dialect/Thread/IR/ThreadClusterOps.td"
include "mirage/Dialect/Thread/IR/ThreadFragmentOps.td"
include "mirage/Dialect/Thread/IR/ThreadMemoryOps.td"
include "mirage/Dialect/Thread/IR/ThreadRingOps.td"

#endif // MIRAGE_DIALECT_THREAD_IR_THREADOPS_TD
