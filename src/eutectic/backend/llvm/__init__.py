"""Native code through LLVM: so far the loop that runs the steps of a region."""

from eutectic.support.lazy import lazy

lazy(globals())
