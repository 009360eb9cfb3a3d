"""What every level of the IR shares: nodes, equality, modules, passes."""
