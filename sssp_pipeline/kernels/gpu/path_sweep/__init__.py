"""What passes each arc of a hierarchy on the shortest paths from many sources, on a GPU."""
