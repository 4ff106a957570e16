"""One module per certificate level; they share the statements and the reading of SymPy trees, and no arithmetic."""
