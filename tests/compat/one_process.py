"""Run scripts one after another in this process, in which `tvm` means Eutectic: a line of JSON for each."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import traceback
import warnings

from eutectic.compat import install_as_tvm

install_as_tvm(replace=True)
for script in sys.argv[1:]:
    out, error = io.StringIO(), ""
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException:  # the next script runs all the same
            error = traceback.format_exc()
    print(json.dumps({"script": script, "out": out.getvalue(), "error": error}))
