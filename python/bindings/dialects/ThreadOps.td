include "mirage/Dialect/Thread/IR/ThreadOps.td"
