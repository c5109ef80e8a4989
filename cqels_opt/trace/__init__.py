"""The trace: what every micro-batch did and which plan it took; read back for the terminal and as a page."""
