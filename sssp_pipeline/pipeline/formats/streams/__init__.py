"""Streams: the bytes of an input, decompressed; every reader opens its files here."""
