"""Why a compiled model is what it is: its groups, their times, and what keeps neighbours apart; data, then views."""

from eutectic.support.lazy import lazy

lazy(globals())
