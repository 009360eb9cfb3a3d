"""What we compile for."""
