include "mirage/Dialect/Common/ScalarOps.td"
