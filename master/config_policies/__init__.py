"""Config policies, stored: of the cluster and of workspaces, for experiments and for tasks."""
