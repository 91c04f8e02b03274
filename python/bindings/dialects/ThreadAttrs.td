include "mirage/Dialect/Thread/IR/ThreadAttrs.td"
