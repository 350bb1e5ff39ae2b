"""Resource managers behind one Protocol: pools of agents now; batch systems and Kubernetes through the same seam."""
