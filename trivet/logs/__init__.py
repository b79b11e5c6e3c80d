"""Files of rows: formats, columns, the shapes that tools write, conversations and traces."""
