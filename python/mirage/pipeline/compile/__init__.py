"""From a chosen µGraph to artifacts, and which kernels do not compile."""
