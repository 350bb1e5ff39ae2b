"""What the master does with checkpoints after they were reported: collect, delete, pack for a download."""
