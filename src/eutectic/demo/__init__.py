"""`eutectic demo`: compile trained networks, name what is on photos, compare with torch eager."""

from eutectic.support.lazy import lazy

lazy(globals())
