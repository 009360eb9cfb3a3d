"""Examples of TVM's names, a function for each, run where `import tvm` gives Eutectic."""
