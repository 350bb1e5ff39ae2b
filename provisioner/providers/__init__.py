"""Where machines come from, behind one Protocol."""
