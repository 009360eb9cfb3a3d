"""Options of passes in a context, and what happens to unknown ones."""

import tvm

with tvm.transform.PassContext(opt_level=3, config={"relax.FuseOps.max_depth": 4}) as outer:
    assert tvm.transform.PassContext.current().opt_level == 3
    with tvm.transform.PassContext(opt_level=1):
        print(tvm.transform.PassContext.current().opt_level)
    print(tvm.transform.PassContext.current().config["relax.FuseOps.max_depth"])
print(tvm.transform.PassContext.current().opt_level)
try:
    tvm.transform.PassContext(config={"no.such.option": 1})
except Exception as error:
    print("refused:", "no.such.option" in str(error))
print("done")
