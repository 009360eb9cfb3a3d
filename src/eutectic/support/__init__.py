"""Services that know nothing about compilers: errors, configuration, spelling help."""

from eutectic.support.lazy import lazy

lazy(globals())
