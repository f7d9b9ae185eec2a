"""The NetworkX backend: functions of NetworkX for shortest paths, solved on all cores or on a GPU.

`interface.py` is what NetworkX loads. `docs/guides/networkx.md` shows the use.
"""
