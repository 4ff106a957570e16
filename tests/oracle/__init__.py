"""A test-only oracle for geodesic sharpness that shares no code with the package and never uses a canonical gauge.

- networks.py, models.py: five tiny attention models and a plain description of their symmetric blocks;
- make_models.py: trains them, moves every head to gauge condition 100, writes tests/data/oracle_models.npz;
- geometry.py: metric in components, Christoffel symbols by automatic differentiation, geodesics by DOP853;
- measure.py: `oracle_loss`, the loss at the end point of a geodesic, in the original gauge at the original point;
- integrator.py, landscape.py, search.py: the maximum over the ball by scipy's trust-constr from 20 starts, on an
  integrator of its own;
- maxima.py, make_maxima.py: read and recompute all maxima, tests/data/oracle_maxima.json.

Nothing of this imports quotientgeo. package_side.py, test_oracle.py and test_oracle_controls.py compare the two.
"""
