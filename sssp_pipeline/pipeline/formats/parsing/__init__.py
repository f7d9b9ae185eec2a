"""What several readers share: bytes of compressed files, lines, tokens, numbers, tables, declared sizes."""
