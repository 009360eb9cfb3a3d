"""Examples of names: see `eutectic.compat.surface.operators`."""
