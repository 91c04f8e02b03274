include "mirage/Dialect/Kernel/IR/KernelOps.td"
