"""`python -m eutectic.compat SCRIPT [ARGS]`: run a script in which `import tvm` gives Eutectic.

With `--table PAGE` it brings the table of TVM's names on a page up to date.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from eutectic.compat.alias import install_as_tvm


def main() -> None:
    """Run the script named on the command line as `__main__`, with its own arguments."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m eutectic.compat SCRIPT [ARGS]\n\nRun a script in which `import tvm` gives Eutectic.")
        print("       python -m eutectic.compat --table PAGE\n\nWrite the table of TVM's names into a page.")
        raise SystemExit(0 if len(sys.argv) > 1 else 2)
    if sys.argv[1] == "--table":
        _write_table(sys.argv[2:])
        return
    script = Path(sys.argv[1])
    if not script.is_file():
        print(f"python -m eutectic.compat: there is no script {script}", file=sys.stderr)
        raise SystemExit(2)
    install_as_tvm(replace=True)
    del sys.argv[0]
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


def _write_table(pages: list[str]) -> None:
    """Bring the table on pages up to date."""
    from eutectic.compat.surface.listing import with_table  # looks at everything that there is

    install_as_tvm(replace=True)
    for page in map(Path, pages):
        page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
