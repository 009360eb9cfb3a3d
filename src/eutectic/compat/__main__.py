"""`python -m eutectic.compat SCRIPT [ARGS]`: run a script in which `import tvm` gives Eutectic."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from eutectic.compat.alias import install_as_tvm


def main() -> None:
    """Run the script named on the command line as `__main__`, with its own arguments."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m eutectic.compat SCRIPT [ARGS]\n\nRun a script in which `import tvm` gives Eutectic.")
        raise SystemExit(0 if len(sys.argv) > 1 else 2)
    script = Path(sys.argv[1])
    if not script.is_file():
        print(f"python -m eutectic.compat: there is no script {script}", file=sys.stderr)
        raise SystemExit(2)
    install_as_tvm(replace=True)
    del sys.argv[0]
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
