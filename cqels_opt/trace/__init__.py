"""The trace: what every micro-batch did and which plan it used, with readers for the terminal and for an HTML page."""
