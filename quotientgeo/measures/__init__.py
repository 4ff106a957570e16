"""Sharpness of a model on fixed batches: the largest rise of the loss in a ball whose norm is the measure's own.

``evaluate.sharpness`` is the one public call. What it makes, in this order:

    Call            the arguments, checked before any work; ``verification`` then tests every symmetry that they declare
    Problem         once: the point that the search starts from and its charts, by ``geodesic``, ``adaptive`` or ``euclidean``
                    (``charts`` of pairs and of single entries; ``declared_chart`` for declared geometries, of the blocks that
                    ``matching`` finds: ``declared`` has root coordinates by ``roots`` at a point chosen by ``balancing``)
    Atlas           per batch: all charts as one map from a flat vector z to parameters, |z| being the norm of the measure
    Workspace       the same map in place, with gradients pulled back by hand (``movers``, ``tables``): what a step costs
    auto_pgd        the search on |z| <= rho, start by start, of an ``Objective`` (the loss of one batch); ``ascent`` drives it
    BatchResult     the maximum of one batch, checked at the maximiser
    Report          collects all of them, with what was verified, left out or failed, and closes with a ``SharpnessResult``
"""
