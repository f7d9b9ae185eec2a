"""The order of a hierarchy: low degrees, thinning and cliques, then METIS or the own nested dissection."""
