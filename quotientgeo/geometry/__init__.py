"""Pure torch geometry of the pair (G, H) modulo GL(h): canonical gauge, horizontal coordinates, geodesics."""
