"""`make fuzz`: programs that nobody wrote, for as long as one likes; see `python -m tests.fuzz --help`."""
