"""Graphs of calls: each kind of object becomes a CSR graph, the ids of its vertices and its second costs."""
