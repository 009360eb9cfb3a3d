"""From text to nodes."""
