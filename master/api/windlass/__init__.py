"""What the published API does not have: machines, costs, reasons, searches."""
