"""cuDNN: which parts of a graph it takes over, and how they are cut out."""
