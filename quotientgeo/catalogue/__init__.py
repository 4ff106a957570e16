"""Shipped geometries, one folder each: declaration.py is written, generated.py and certificate.json are made from it."""
