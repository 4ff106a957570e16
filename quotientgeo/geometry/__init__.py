"""Numbers, in pure torch: the pair (G, H) modulo GL(h) in float64, and the run-time geometry of any generated module.

Of the pair: ``gauge`` (canonical frames), ``coordinates`` (horizontal coordinates), ``invariant`` and ``mixed`` (one file per
metric, exact geodesics), ``first_order`` (Taylor polynomials), ``pair`` (all of it behind one class); ``logarithm`` and
``distances`` (with ``anderson``, ``distance_paths``, ``distance_rank_one``).

Of any geometry: ``derived.Derived`` over a generated module, with ``derived_flow`` (integration to a tolerance),
``derived_closed`` (closed forms, accepted only where they agree with the generated equation) and ``derived_shipped`` (those
that come with the catalogue).
"""
