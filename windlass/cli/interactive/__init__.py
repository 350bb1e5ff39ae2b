"""`det command`, `det notebook`, `det shell` and `det tensorboard`: verbs that all have, and each kind's own."""
