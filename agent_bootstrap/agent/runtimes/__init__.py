"""Ways to run one container on this machine, behind one Protocol."""
