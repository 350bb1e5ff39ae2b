"""What the containers of an allocation ask and tell."""
