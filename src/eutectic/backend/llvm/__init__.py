"""Native code through LLVM: so far the loop that runs the steps of a region."""
