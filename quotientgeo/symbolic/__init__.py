"""Symbols only: declarations, the matrix algebra they are read into, derivation, and code generation."""
