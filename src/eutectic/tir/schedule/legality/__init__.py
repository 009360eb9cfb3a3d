"""What proves a step of a schedule, or refuses it; nothing here changes a program."""

from eutectic.support.lazy import lazy

lazy(globals())
